#include "run/complete/complete.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/json/is_text.h"
#include "config/table/option_value.h"
#include "data/row/columns.h"
#include "data/row/conversions.h"
#include "data/row/row_text.h"
#include "run/complete/request_options.h"

namespace trl::run {

namespace {

struct Conversation {
  base::Json messages;
  base::Json tools;      // null: none
  base::Json variables;  // chat_template_kwargs; null: none
};

base::Json parsed(std::string_view text) {
  if (!text.starts_with('{') && !text.starts_with('[')) return nullptr;
  try {
    return base::parse_exact_json(text, "prompt");
  } catch (const Error&) {
    return nullptr;
  }
}

void drop_answers(base::Json& messages) {
  const auto is_answer = [](const base::Json& message) {
    return message.is_object() && message.contains("role") && base::is_text(message.at("role"), "assistant");
  };
  while (messages.size() > 1 && is_answer(messages.back())) messages.erase(messages.size() - 1);
}

base::Json tools_of(const data::Row& row) {
  const base::Json* tools = data::find_column(row, "tools");
  if (tools == nullptr) return nullptr;
  return tools->is_string() ? base::parse_exact_json(tools->get_ref<const std::string&>(), "tools") : *tools;
}

// Reads a prompt that is JSON: a list of messages, or a row with such a list in messages (the answers at its
// end are left out), prompt or conversations, with its tools and chat_template_kwargs. Any other prompt is
// the user's message. Throws Error(format).
Conversation conversation_of(std::string_view prompt) {
  base::Json given = parsed(prompt);
  if (data::is_messages(given)) {
    const data::Row row{{{"messages", std::move(given)}}, {"prompt"}};
    return {data::messages_column(row, "messages"), nullptr, nullptr};
  }
  if (given.is_object()) {
    data::Row row{std::move(given), {"prompt"}};
    data::convert_conversations(row);
    data::convert_from_value(row, "prompt");
    for (const char* name : {"prompt", "messages"}) {
      const base::Json* found = data::find_column(row, name);
      if (found == nullptr || !data::is_messages(*found)) continue;
      base::Json messages = data::messages_column(row, name);
      if (std::string_view(name) == "messages") drop_answers(messages);
      text::RenderOptions options;
      options.tools = tools_of(row);
      data::read_template_variables(row, options);
      return {std::move(messages), std::move(options.tools), std::move(options.row_variables)};
    }
  }
  return {base::Json::array({base::Json{{"role", "user"}, {"content", prompt}}}), nullptr, nullptr};
}

// Returns the ids of a prompt in the chat template; the prompt's own system message replaces `system`.
std::vector<int32_t> chat_ids(const Tokenizer& tokenizer, std::string_view prompt,
                              const std::optional<std::string>& system) {
  auto [messages, tools, variables] = conversation_of(prompt);
  if (system && (messages.empty() || messages[0].value("role", "") != "system"))
    messages.insert(messages.begin(), base::Json{{"role", "system"}, {"content", *system}});
  return conversation_ids(tokenizer, messages, tools, variables);
}

}  // namespace

std::vector<int32_t> text_ids(const Tokenizer& tokenizer, std::string_view text) {
  const text::Tokenizer& own = tokenizer.get();
  const auto& bos = own.special().bos;
  const bool spelled = bos && text.starts_with(*bos) && !own.splits_special_tokens();
  return own.encode(text, !spelled, own.given_of(text.size()));
}

std::vector<int32_t> conversation_ids(const Tokenizer& tokenizer, const base::Json& messages,
                                      const base::Json& tools, const base::Json& variables) {
  base::Json conversation = {
      {"messages", messages}, {"add_generation_prompt", true}, {"chat_template_kwargs", variables}};
  if (!tools.is_null()) conversation["tools"] = tools;
  return tokenizer.encode_conversation(conversation);
}

std::vector<Completion> complete(Requests& requests, std::span<const std::vector<int32_t>> prompts,
                                 RequestOptions options, const OnToken& on_token) {
  // Equal prompts that follow each other are one request.
  for (size_t i = 0, count; i < prompts.size(); i += count) {
    count = 1;
    while (i + count < prompts.size() && prompts[i] == prompts[i + count]) ++count;
    options.count = static_cast<int64_t>(count);
    try {
      requests.add(prompts[i], options);
    } catch (const Error& error) {
      if (prompts.size() == 1 || !error.key().empty()) throw;
      throw error.with(fmt::format("prompt {}, {}", i, error.message()));
    }
    options.stream += count;
  }
  bool failed = false;
  const OnToken until_failure = [&](size_t number, int32_t id, const std::string& piece,
                                    double log_probability) {
    if (std::exchange(failed, true)) return 1;
    const int32_t answer = on_token(number, id, piece, log_probability);
    failed = false;
    return answer;
  };
  while (requests.step(on_token == nullptr ? on_token : until_failure)) {
  }
  return requests.take(0, std::ssize(prompts));
}

void check_given_ids(const config::Config& options) {
  const bool chat = options.get_bool("generate.chat");
  const std::string_view key = chat ? "generate.chat" : "generate.system";
  if (!chat && !options.get_text(key)) return;
  fail_key(key,
           "{}: {} is for a prompt of text: ids are taken as they are, without the chat template: give text, "
           "or {}: {}",
           key, config::shown(options.get(key)), key, chat ? "false" : "null");
}

std::vector<std::vector<int32_t>> prompt_ids(const Tokenizer& tokenizer,
                                             std::span<const std::string_view> prompts,
                                             const config::Config& options) {
  const bool chat = options.get_bool("generate.chat");
  const std::optional<std::string> system = options.get_text("generate.system");
  if (system && !chat)
    fail_key("generate.system",
             "generate.system: it needs generate.chat: true: a prompt as it stands has no messages");
  const int64_t times = completions_of(options);
  std::vector<std::vector<int32_t>> all;
  for (size_t i = 0; i < prompts.size(); ++i) {
    const std::vector<int32_t> ids =
        chat ? chat_ids(tokenizer, prompts[i], system) : text_ids(tokenizer, prompts[i]);
    if (ids.empty())
      fail(Status::invalid_argument, "{} {}has no token: give a text to complete",
           prompts.size() == 1 ? "the prompt" : fmt::format("prompts[{}]", i),
           prompts[i].empty() ? "is empty and " : "");
    all.insert(all.end(), static_cast<size_t>(times), ids);
  }
  return all;
}

}  // namespace trl::run
