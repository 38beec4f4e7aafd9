#include "run/tokenizer.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "config/dataset/data_arguments.h"
#include "data/tokenizer/open_tokenizer.h"

namespace trl::run {
namespace {

constexpr std::string_view kTokenizerKeys[] = {"eos_token", "pad_token", "chat_template",
                                               "chat_template_path"};

base::Json describe_tokenizer(const text::Tokenizer& tokenizer) {
  base::Json out = {{"vocab_size", tokenizer.vocab_size()}};
  const base::Json tokens = tokenizer.special_tokens_map();
  for (const char* name : {"bos_token", "eos_token", "pad_token", "unk_token"}) {
    const bool known = tokens.contains(name);
    out[name] = known ? tokens[name] : base::Json(nullptr);
    const auto id = known ? tokenizer.token_to_id(tokens[name].get<std::string>()) : std::nullopt;
    out[std::string(name) + "_id"] = id ? base::Json(*id) : base::Json(nullptr);
  }
  const auto& templates = tokenizer.chat_templates();
  const bool one = templates.size() == 1 && templates.contains("default");
  if (one)
    out["chat_template"] = templates.at("default");
  else
    out["chat_template"] = templates.empty() ? base::Json(nullptr) : base::Json(templates);
  return out;
}

bool flag(const base::Json& conversation, const char* name) {
  const auto found = conversation.find(name);
  if (found == conversation.end() || found->is_null()) return false;
  if (!found->is_boolean())
    fail(Status::format, "json: {} must be true or false, not a {}", name, base::json_type(*found));
  return found->get<bool>();
}

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<text::Tokenizer> tokenizer)
    : tokenizer_(std::move(tokenizer)),
      templates_(tokenizer_->chat_templates()),
      described_(describe_tokenizer(*tokenizer_).dump()),
      constraints_(*tokenizer_) {}

text::Rendered Tokenizer::render(const base::Json& messages, const text::RenderOptions& options) const {
  if (const text::ChatTemplate* chosen = templates_.find(options.tools))
    return chosen->render(messages, options);
  fail(Status::not_found,
       "{}; give one in the model's directory (chat_template.jinja or tokenizer_config.json), or through "
       "chat_template or chat_template_path if these are taken here",
       templates_.why_none());
}

std::shared_ptr<const text::ChatTemplate> Tokenizer::compiled(const std::string& source) const {
  constexpr size_t kMost = 8;
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find(compiled_, source, [](const auto& one) { return one->source(); });
  std::shared_ptr<const text::ChatTemplate> chosen;
  if (found != compiled_.end()) {
    chosen = *found;
    compiled_.erase(found);
  } else {
    chosen = std::make_shared<const text::ChatTemplate>(source);
    if (compiled_.size() == kMost) compiled_.pop_back();
  }
  compiled_.push_front(chosen);
  return chosen;
}

std::vector<int32_t> Tokenizer::encode_conversation(const base::Json& conversation) const {
  return encode(render(conversation));
}

std::vector<int32_t> Tokenizer::encode_messages(const base::Json& messages,
                                                const base::Json& variables) const {
  text::RenderOptions options;
  options.find_given = tokenizer_->splits_special_tokens();
  options.variables = variables;
  return encode(render(messages, options));
}

std::vector<int32_t> Tokenizer::encode(const text::Rendered& rendered) const {
  return tokenizer_->encode(rendered.text, false, rendered.given);
}

text::Rendered Tokenizer::render(const base::Json& conversation) const {
  text::RenderOptions options;
  options.find_given = tokenizer_->splits_special_tokens();
  options.variables = tokenizer_->special_tokens_map();
  if (conversation.is_array()) return render(conversation, options);
  if (!conversation.is_object() || !conversation.contains("messages")) {
    fail(Status::format, "json: a list of messages or an object with messages is needed, not a {}",
         base::json_type(conversation));
  }
  static constexpr std::array<std::string_view, 6> kKnown = {"messages",
                                                             "tools",
                                                             "add_generation_prompt",
                                                             "continue_final_message",
                                                             "chat_template",
                                                             "chat_template_kwargs"};
  for (const auto& [name, value] : conversation.items()) {
    if (std::ranges::find(kKnown, name) == kKnown.end()) {
      fail(Status::format,
           "json: '{}' is not one of messages, tools, add_generation_prompt, continue_final_message, "
           "chat_template, chat_template_kwargs",
           name);
    }
  }
  options.add_generation_prompt = flag(conversation, "add_generation_prompt");
  options.continue_final_message = flag(conversation, "continue_final_message");
  if (conversation.contains("tools")) options.tools = conversation["tools"];
  if (const auto given = conversation.find("chat_template_kwargs");
      given != conversation.end() && !given->is_null()) {
    if (!given->is_object()) fail(Status::format, "json: chat_template_kwargs must be an object");
    options.row_variables = *given;
  }
  if (const auto source = conversation.find("chat_template");
      source != conversation.end() && !source->is_null()) {
    if (!source->is_string()) fail(Status::format, "json: chat_template must be a text");
    return compiled(source->get<std::string>())->render(conversation["messages"], options);
  }
  return render(conversation["messages"], options);
}

std::string text_of(const text::Tokenizer& tokenizer, std::vector<int32_t> ids, bool skip_special_tokens) {
  std::erase_if(ids, [end = tokenizer.vocab_size()](int32_t id) { return id >= end; });
  return tokenizer.decode(ids, skip_special_tokens);
}

std::shared_ptr<Tokenizer> open_tokenizer(const io::ModelSource& model, const config::Config& options,
                                          base::LogSink& log) {
  auto tokenizer = data::open_tokenizer(model, &log);
  const bool changed = std::any_of(std::begin(kTokenizerKeys), std::end(kTokenizerKeys),
                                   [&](std::string_view key) { return options.is_set(key); });
  if (changed) tokenizer = data::training_tokenizer(*tokenizer, config::data_arguments(options));
  if (options.get_bool("split_special_tokens")) tokenizer = tokenizer->with({.split_special_tokens = true});
  return std::make_shared<Tokenizer>(std::move(tokenizer));
}

}  // namespace trl::run
