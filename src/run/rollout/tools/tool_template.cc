#include "run/rollout/tools/tool_template.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "run/tokenizer.h"

namespace trl::run {

namespace {

constexpr const char* kToolsKey = "tools";

base::Json call_of(const std::string& tool, const base::Json& arguments) {
  return {{"type", "function"}, {"function", {{"name", tool}, {"arguments", arguments}}}};
}

// A conversation up to a call; TRL's words, of which only what follows them is used.
base::Json called(const std::string& tool, const base::Json& arguments = base::Json::object()) {
  base::Json messages = base::Json::array();
  messages.push_back({{"role", "user"}, {"content", "dummy"}});
  messages.push_back({{"role", "assistant"}, {"content", ""}});
  messages.back()["tool_calls"].push_back(call_of(tool, arguments));
  return messages;
}

base::Json answer_of(const std::string& tool, const std::string& content) {
  return {{"role", "tool"}, {"name", tool}, {"content", content}};
}

bool begins_with(const std::vector<int32_t>& ids, const std::vector<int32_t>& beginning) {
  return ids.size() >= beginning.size() && std::equal(beginning.begin(), beginning.end(), ids.begin());
}

}  // namespace

ToolTemplate::ToolTemplate(const config::OnlineArguments& arguments, const text::Tokenizer& tokenizer)
    : tokenizer_(tokenizer), variables_(data::template_variables(tokenizer, arguments.chat_template_kwargs)) {
  prompts_.schemas = base::parse_json(arguments.tools, "tools");
  prompts_.environments = arguments.environments;
  choose_template();
  if (prompts_.environments) {
    renderer_.emplace(tokenizer_, data::Row{base::Json::object(), {"the prompts"}},
                      std::span<const std::string_view>(), arguments.chat_template_kwargs,
                      data::OwnVariables::left);
    renderer_->use_tools(prompts_);
  }
  if (arguments.host_parses_calls) return;
  const text::ResponseForm* const form = text::response_form(template_->source());
  if (form == nullptr) {
    fail_key("tool_call_parser",
             "tool_call_parser: auto does not know how models of this chat template write calls: give host, "
             "whose function then finds them");
  }
  parser_.emplace(*form);
}

// A template that is not fit is replaced by TRL's variant for training, if there is one.
void ToolTemplate::choose_template() {
  const text::ChatTemplates all(tokenizer_.chat_templates());
  const text::ChatTemplate* const own = all.find(base::Json::array());
  if (own == nullptr) fail_key(kToolsKey, "{}: they need a chat template, and {}", kToolsKey, all.why_none());
  template_.emplace(own->source());
  if (renders_whole() && keeps_beginnings()) return;
  const auto variant = text::training_template(own->source());
  if (variant) template_.emplace(*variant);
  if (!renders_whole()) {
    fail_key(
        kToolsKey,
        "{}: the model's chat template leaves out calls of an assistant, or answers of tools (messages of "
        "the role tool): take a model whose template renders both",
        kToolsKey);
  }
  if (!keeps_beginnings()) {
    fail_key(kToolsKey,
             "{}: the model's chat template writes a call otherwise when its answer follows, so that a "
             "conversation cannot go on: take a model whose template leaves it as it is",
             kToolsKey);
  }
  prompts_.chat_template = *variant;
}

text::Rendered ToolTemplate::render(const base::Json& messages, bool add_generation_prompt) const {
  text::RenderOptions options;
  options.variables = variables_;
  options.add_generation_prompt = add_generation_prompt;
  options.find_given = tokenizer_.splits_special_tokens();
  return template_->render(messages, options);
}

std::vector<int32_t> ToolTemplate::ids_of(const base::Json& messages, bool add_generation_prompt) const {
  const text::Rendered rendered = render(messages, add_generation_prompt);
  return tokenizer_.encode(rendered.text, false, rendered.given);
}

bool ToolTemplate::renders_whole() const {
  const std::string tool = "tool_name_a8f3e2b1", argument = "tool_arg_key_b9d4f5c2",
                    value = "tool_arg_val_d6e7a9f3", answer = "tool_content_c4f9a8e2";
  base::Json messages = called(tool, {{argument, value}});
  messages.push_back(answer_of(tool, answer));
  try {
    const std::string text = render(messages, false).text;
    return std::ranges::all_of(std::array{&tool, &argument, &value, &answer}, [&](const std::string* part) {
      return text.find(*part) != std::string::npos;
    });
  } catch (const Error& error) {
    if (error.status() != Status::format) throw;
    return false;
  }
}

bool ToolTemplate::keeps_beginnings() const {
  base::Json messages = called("dummy");
  const std::vector<int32_t> before = ids_of(messages, false);
  messages.push_back(answer_of("dummy", "dummy"));
  return begins_with(ids_of(messages, true), before);
}

std::vector<int32_t> ToolTemplate::answer_ids(const base::Json& answers) const {
  base::Json messages = called(answers.at(0).at("name"));
  std::vector<int32_t> before = ids_of(messages, false);
  for (const base::Json& answer : answers) messages.push_back(answer);
  const std::vector<int32_t> all = ids_of(messages, true);
  // A template may write a line end after the token that ends a turn, which the model did not.
  if (const auto eos = tokenizer_.special_id(tokenizer_.special().eos)) {
    const auto last = std::find(before.rbegin(), before.rend(), *eos);
    if (last != before.rend()) before.erase(last.base(), before.end());
  }
  if (!begins_with(all, before))
    fail(Status::format, "the chat template writes a call otherwise when the answer of {} follows it",
         answers.at(0).at("name").dump());
  return {all.begin() + std::ssize(before), all.end()};
}

std::vector<int32_t> ToolTemplate::prompt_ids(const base::Json& row, const Place& where) const {
  const text::Rendered rendered = renderer_->render({row, where}, row.at("prompt"), true);
  return tokenizer_.encode(rendered.text, false, rendered.given);
}

const std::string& ToolTemplate::environment_of(const base::Json& row) const {
  return prompts_.environment_of({row, {"the row"}});
}

base::Json ToolTemplate::message_of(std::span<const int32_t> turn, const std::vector<int32_t>& before,
                                    const base::Json& row) const {
  auto message = parser_->parse(text_of(turn), run::text_of(tokenizer_, before, false), schemas_of(row));
  if (message) {
    std::string content = (*message)["content"];
    const std::optional<std::string>& eos = tokenizer_.special().eos;
    if (eos && content.ends_with(*eos)) content.resize(content.size() - eos->size());
    (*message)["content"] = content;
    return *std::move(message);
  }
  return {{"role", "assistant"}, {"content", run::text_of(tokenizer_, {turn.begin(), turn.end()}, true)}};
}

std::string ToolTemplate::text_of(std::span<const int32_t> turn) const {
  return run::text_of(tokenizer_, {turn.begin(), turn.end()}, false);
}

}  // namespace trl::run
