#include "run/complete/complete.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "base/error.h"
#include "base/interrupt.h"
#include "data/row/columns.h"
#include "data/row/conversions.h"
#include "data/row/row_text.h"
#include "engine/error_capture.h"
#include "run/complete/request_options.h"
#include "text/tokenizer/completion_text.h"

namespace trl::run {

namespace {

class Tokens final : public engine::TokenSink {
 public:
  Tokens(std::vector<text::CompletionText>& texts, const engine::Sampling& sampling, const OnToken& function)
      : texts_(texts),
        sampling_(sampling),
        function_(function),
        reasons_(texts.size(), kLength),
        tokens_(texts.size()) {}
  bool on_token(int64_t prompt, const engine::Token& token) noexcept override {
    const int32_t id = token.id;
    if (failure_ != nullptr) return false;
    try {
      text::CompletionText& text = texts_[static_cast<size_t>(prompt)];
      if (sampling_.log_probabilities) tokens_[static_cast<size_t>(prompt)].push_back(token);
      const char* reason = add(text, id);
      if (reason != nullptr && text.finish()) reason = kStopped;
      if (function_ != nullptr) {
        const int32_t answer = function_(static_cast<size_t>(prompt), id, std::string(text.take()));
        if (answer != 0 && reason == nullptr) reason = "callback";
      }
      if (reason != nullptr) reasons_[static_cast<size_t>(prompt)] = reason;
      return reason == nullptr;
    } catch (...) {
      failure_ = std::current_exception();
      if (base::Interrupt* const own = base::thread_interrupt()) own->fail();
      return false;
    }
  }

  const char* reason(size_t prompt) const { return reasons_[prompt]; }
  std::vector<engine::Token> take(size_t prompt) { return std::move(tokens_[prompt]); }
  void throw_failure() const {
    if (failure_ != nullptr) std::rethrow_exception(failure_);
  }

 private:
  static constexpr const char *kLength = "length", *kStopped = "stop_sequence";
  // Adds a token. Returns why the text ends with it; null: the text continues.
  const char* add(text::CompletionText& text, int32_t id) const {
    if (text.add(id)) return kStopped;
    const auto& ends = sampling_.stop_ids;
    if (std::ranges::find(ends, id) != ends.end()) return "eos_token";
    return static_cast<int64_t>(text.ids().size()) == sampling_.max_new_tokens ? kLength : nullptr;
  }
  std::vector<text::CompletionText>& texts_;
  const engine::Sampling& sampling_;
  const OnToken& function_;
  std::exception_ptr failure_;
  std::vector<const char*> reasons_;
  std::vector<std::vector<engine::Token>> tokens_;  // with log-probabilities
};

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
    return message.is_object() && message.contains("role") && message["role"] == "assistant";
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
    const data::Row row{{{"messages", std::move(given)}}, "prompt"};
    return {data::messages_column(row, "messages"), nullptr, nullptr};
  }
  if (given.is_object()) {
    data::Row row{std::move(given), "prompt"};
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
      return {std::move(messages), std::move(options.tools), std::move(options.variables)};
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
  const auto& bos = tokenizer.get().special().bos;
  return tokenizer.get().encode(text, !(bos && text.starts_with(*bos)));
}

std::vector<int32_t> conversation_ids(const Tokenizer& tokenizer, const base::Json& messages,
                                      const base::Json& tools, const base::Json& variables) {
  base::Json conversation = {
      {"messages", messages}, {"add_generation_prompt", true}, {"chat_template_kwargs", variables}};
  if (!tools.is_null()) conversation["tools"] = tools;
  return tokenizer.get().encode(tokenizer.apply_chat_template(conversation), false);
}

base::Json json_of(const Completion& completion) {
  base::Json object = {
      {"text", completion.text}, {"token_ids", completion.ids}, {"finish_reason", completion.finish_reason}};
  const auto pairs = [](const std::vector<engine::Ranked>& best) {
    base::Json list = base::Json::array();
    for (const engine::Ranked& one : best) list.push_back({one.id, one.log_probability});
    return list;
  };
  for (const engine::Token& token : completion.tokens) {
    object["logprobs"].push_back(token.whole_log_probability);
    object["sampling_logprobs"].push_back(token.log_probability);
    if (token.whole_best.empty()) continue;
    object["top_logprobs"].push_back(pairs(token.whole_best));
    object["sampling_top_logprobs"].push_back(pairs(token.best));
  }
  return object;
}

std::vector<Completion> complete(Environment& environment, engine::Model& model, const Tokenizer& tokenizer,
                                 std::span<const std::vector<int32_t>> prompts,
                                 const engine::Sampling& sampling, const std::vector<std::string>& stops,
                                 const OnToken& on_token) {
  const std::vector<std::span<const int32_t>> spans(prompts.begin(), prompts.end());
  std::vector<text::CompletionText> texts(prompts.size(), text::CompletionText(tokenizer.get(), stops));
  Tokens sink(texts, sampling, on_token);
  engine::ErrorCapture error;
  const int32_t status =
      environment.use_engine(Use::generate, [&] { return model.generate(spans, sampling, sink, error); });
  sink.throw_failure();
  with_option_names([&] { error.check(status); });
  std::vector<Completion> all;
  for (text::CompletionText& text : texts) {
    text.finish();
    const size_t prompt = all.size();
    all.push_back({text.ids(), text.text(), sink.reason(prompt), sink.take(prompt)});
    all.back().ids.reserve(1);  // so that ids is an array even without tokens
  }
  return all;
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
      fail(Status::invalid_argument, "prompts[{}] {}has no token: give a text to complete", i,
           prompts[i].empty() ? "is empty and " : "");
    all.insert(all.end(), static_cast<size_t>(times), ids);
  }
  return all;
}

}  // namespace trl::run
