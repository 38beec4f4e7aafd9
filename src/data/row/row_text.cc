// Messages that a template leaves out: in most conversations the contents are in the text one after another.
// For the others, each message gets a unique word, and the conversation is rendered again.
#include "data/row/row_text.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.h"
#include "data/row/columns.h"

namespace trl::data {

namespace {

// Parses JSON text in a column.
base::Json in_column(const Row& row, std::string_view name, const std::string& json) {
  try {
    return base::parse_exact_json(json, fmt::format("{}: column '{}'", row.where, name));
  } catch (const Error& error) {
    throw error.at(row.where);
  }
}

base::Json read_tools(const Row& row) {
  const base::Json* column = find_column(row, "tools");
  if (column == nullptr) return nullptr;
  base::Json tools = *column;
  if (tools.is_string()) tools = in_column(row, "tools", tools.get<std::string>());
  const bool objects =
      tools.is_array() && std::ranges::all_of(tools, [](const auto& t) { return t.is_object(); });
  if (!objects && !tools.is_null()) fail_column(row, "tools", "a list of objects, or JSON text of one,");
  return tools;
}

// Arguments of transformers' apply_chat_template that are not variables of a template.
constexpr std::array<std::string_view, 5> kNotVariables = {"add_generation_prompt", "chat_template",
                                                           "continue_final_message",
                                                           "return_assistant_tokens_mask", "tokenize"};

bool has_parts(const base::Json& message) {
  const auto content = message.find("content");
  return content != message.end() && content->is_array() && !content->empty();
}

// TRL passes lists of parts to the template unchanged. A template that does not handle them writes Python's
// text of the list, which nobody wants to train on.
void refuse_printed_parts(const Row& row, const base::Json& messages, const std::string& rendered) {
  // never destroyed: other threads may still prepare rows while the process ends
  static const auto& as_it_is = *new const text::ChatTemplate("{{ messages[0]['content'] }}");
  for (size_t i = 0; i < messages.size(); ++i) {
    if (!has_parts(messages[i])) continue;
    base::Json one = base::Json::array();
    one.push_back(messages[i]);
    if (rendered.find(as_it_is.render(one, {}).text) == std::string::npos) continue;
    fail(Status::format,
         "{}: message {}: its content is a list of parts, which the chat template writes as it stands; give "
         "the content as text",
         row.where, i + 1);
  }
}

// If a template fails on a list of parts, its own message does not say so.
std::string blamed_message(const base::Json& messages) {
  for (size_t i = 0; i < messages.size(); ++i) {
    if (has_parts(messages[i]))
      return fmt::format(
          " (the content of message {} is a list of parts; a template that takes text alone needs text)",
          i + 1);
  }
  return "";
}

constexpr std::array<std::string_view, 4> kUsualRoles = {"system", "user", "assistant", "tool"};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlank);
  return begin == std::string_view::npos ? "" : text.substr(begin, text.find_last_not_of(kBlank) + 1 - begin);
}

const base::Json* member(const base::Json& value, const char* key) {
  const auto found = value.is_object() ? value.find(key) : value.end();
  return value.is_object() && found != value.end() ? &*found : nullptr;
}

// Returns the text that a rendered message surely shows: its content or the name of its first call.
std::string_view shown_text(const base::Json& message) {
  const base::Json* text = member(message, "content");
  if (text != nullptr && text->is_array() && !text->empty()) text = member(text->front(), "text");
  const base::Json* calls = member(message, "tool_calls");
  if ((text == nullptr || !text->is_string() || trimmed(text->get_ref<const std::string&>()).empty()) &&
      calls != nullptr && calls->is_array() && !calls->empty()) {
    const base::Json* function = member(calls->front(), "function");
    text = member(function != nullptr ? *function : calls->front(), "name");
  }
  return text != nullptr && text->is_string() ? trimmed(text->get_ref<const std::string&>()) : "";
}

bool stand_in_order(const base::Json& messages, std::string_view text) {
  size_t at = 0;
  return std::ranges::all_of(messages, [&](const base::Json& message) {
    const std::string_view words = shown_text(message);
    if (words.empty()) return true;
    const base::Json* role = member(message, "role");
    const size_t found = text.find(words, at);
    at = found + words.size();
    if (found == std::string_view::npos || role == nullptr || !role->is_string()) return false;
    return std::ranges::find(kUsualRoles, std::string_view(role->get_ref<const std::string&>())) !=
           kUsualRoles.end();
  });
}

std::string word_of(size_t index) { return "qzx" + std::to_string(index) + "xzq"; }

void put_word(base::Json& message, const std::string& word) {
  if (const auto content = message.find("content"); content != message.end()) {
    if (content->is_string() && !trimmed(content->get_ref<const std::string&>()).empty()) *content = word;
    if (content->is_array() && !content->empty()) *content = {{{"type", "text"}, {"text", word}}};
  }
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array()) return;
  for (base::Json& call : *calls) {
    if (!call.is_object()) continue;
    base::Json& function = member(call, "function") != nullptr ? call["function"] : call;
    if (member(function, "name") != nullptr) function["name"] = word;
  }
}

// Returns the number, from 1, of the first message whose content and tool calls do not appear in the rendered
// text at all; 0: no message, or the template does not tell. render: renders other messages of the same row.
size_t first_left_out(const base::Json& messages, const std::string& rendered,
                      const std::function<std::string(const base::Json&)>& render) {
  if (stand_in_order(messages, rendered)) return 0;
  base::Json marked = messages;
  for (size_t i = 0; i < marked.size(); ++i)
    if (!shown_text(marked[i]).empty()) put_word(marked[i], word_of(i));
  std::string text;
  try {
    text = render(marked);
  } catch (const Error&) {
    return 0;
  }
  for (size_t i = 0; i < messages.size(); ++i)
    if (!shown_text(messages[i]).empty() && text.find(word_of(i)) == std::string::npos) return i + 1;
  return 0;
}

}  // namespace

void read_template_variables(const Row& row, text::RenderOptions& options) {
  const base::Json* given = find_column(row, "chat_template_kwargs");
  if (given == nullptr) return;
  if (!given->is_object()) fail_column(row, "chat_template_kwargs", "an object of template variables");
  for (const auto& [name, value] : given->items()) {
    if (std::ranges::find(kNotVariables, name) != kNotVariables.end()) {
      fail(Status::unsupported, "{}: column 'chat_template_kwargs': '{}' cannot be set by a row", row.where,
           name);
    }
    if (name == "tools")
      options.tools = value;
    else
      options.row_variables[name] = value;
  }
}

std::string with_eos(const text::Tokenizer& tokenizer, const std::string& text) {
  const std::optional<std::string>& eos = tokenizer.special().eos;
  if (!eos) fail_key("eos_token", "eos_token: the tokenizer has no EOS token to end the text with; name one");
  return text.ends_with(*eos) && !tokenizer.splits_special_tokens() ? text : text + *eos;
}

size_t common_prefix_length(std::span<const int32_t> a, std::span<const int32_t> b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

bool has_own_variables(const Row& row) {
  return find_column(row, "tools") != nullptr || find_column(row, "chat_template_kwargs") != nullptr;
}

base::Json template_variables(const text::Tokenizer& tokenizer, std::string_view given) {
  base::Json all = tokenizer.special_tokens_map();
  const base::Json more = base::parse_json(given, "chat_template_kwargs");
  for (const auto& [name, value] : more.items()) {
    if (std::ranges::find(kNotVariables, name) != kNotVariables.end())
      fail_key("chat_template_kwargs", "chat_template_kwargs: {} cannot be set", name);
    all[name] = value;
  }
  return all;
}

Renderer::Renderer(const text::Tokenizer& tokenizer, const Row& first, std::span<const std::string_view> keys,
                   std::string_view variables, OwnVariables own)
    : templates_(tokenizer.chat_templates()),
      keys_(keys.begin(), keys.end()),
      own_(own),
      find_given_(tokenizer.splits_special_tokens()),
      variables_(template_variables(tokenizer, variables)) {
  template_of(first, options_of(first).tools);
}

void Renderer::use_tools(const PromptTools& tools) {
  tools_ = &tools;
  if (!tools.chat_template.empty()) set_chat_template(tools.chat_template);
}

text::RenderOptions Renderer::options_of(const Row& row) const {
  text::RenderOptions options;
  options.variables = variables_;
  const bool own = own_ == OwnVariables::rendered;
  if (tools_ != nullptr)
    options.tools = tools_->of(row);
  else if (own)
    options.tools = read_tools(row);
  if (own) read_template_variables(row, options);
  return options;
}

const text::ChatTemplate& Renderer::template_of(const Row& row, const base::Json& tools) const {
  if (const text::ChatTemplate* found = templates_.find(tools)) return *found;
  const std::string_view key = keys_.empty() ? "model_name_or_path" : keys_.front();
  fail_key(
      key,
      "{}: {} is conversational, and {}; give {}a template in the model's directory (chat_template.jinja "
      "or tokenizer_config.json), or rows of text",
      key, row.where, templates_.why_none(),
      keys_.empty() ? "" : fmt::format("one through {}, ", fmt::join(keys_, " or ")));
}

text::Rendered Renderer::render(const Row& row, const base::Json& messages,
                                bool add_generation_prompt) const {
  text::RenderOptions options = options_of(row);
  options.add_generation_prompt = add_generation_prompt;
  options.find_given = find_given_;
  const text::ChatTemplate& chosen = template_of(row, options.tools);
  text::Rendered rendered;
  try {
    rendered = chosen.render(messages, options);
  } catch (const Error& error) {
    throw error
        .with(fmt::format("{}{}{}{}", row.where,
                          error.message().starts_with("chat template") ? ": " : ": chat template: ",
                          error.message(), blamed_message(messages)))
        .at(row.where);
  }
  refuse_printed_parts(row, messages, rendered.text);
  return rendered;
}

size_t Renderer::left_out(const Row& row, const base::Json& messages, const std::string& rendered) const {
  return first_left_out(messages, rendered, [&](const base::Json& marked) {
    const text::RenderOptions options = options_of(row);
    return template_of(row, options.tools).render(marked, options).text;
  });
}

}  // namespace trl::data
