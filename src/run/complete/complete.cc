#include "run/complete/complete.h"

#include <algorithm>
#include <exception>

#include "base/interrupt.h"
#include "engine/error_capture.h"
#include "run/complete/completion_text.h"
#include "run/open_model.h"

namespace trl::run {

namespace {

class Tokens final : public engine::TokenSink {
 public:
  Tokens(std::vector<CompletionText>& texts, const engine::Sampling& sampling, const OnToken& function)
      : texts_(texts), sampling_(sampling), function_(function), reasons_(texts.size(), kLength) {}
  bool on_token(int64_t prompt, int32_t id, float) noexcept override {
    if (failure_ != nullptr) return false;
    try {
      CompletionText& text = texts_[static_cast<size_t>(prompt)];
      const char* reason = add(text, id);
      if (reason != nullptr) text.finish();
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
  void throw_failure() const {
    if (failure_ != nullptr) std::rethrow_exception(failure_);
  }

 private:
  static constexpr const char* kLength = "length";
  // Adds a token. Returns why the text ends with it; null: the text continues.
  const char* add(CompletionText& text, int32_t id) const {
    if (text.add(id)) return "stop_sequence";
    const auto& ends = sampling_.stop_ids;
    if (std::find(ends.begin(), ends.end(), id) != ends.end()) return "eos_token";
    return static_cast<int64_t>(text.ids().size()) == sampling_.max_new_tokens ? kLength : nullptr;
  }
  std::vector<CompletionText>& texts_;
  const engine::Sampling& sampling_;
  const OnToken& function_;
  std::exception_ptr failure_;
  std::vector<const char*> reasons_;
};

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

std::vector<Completion> complete(Environment& environment, engine::Model& model, const Tokenizer& tokenizer,
                                 std::span<const std::vector<int32_t>> prompts, engine::Sampling sampling,
                                 const std::vector<std::string>& stops, const OnToken& on_token) {
  const std::vector<std::span<const int32_t>> spans(prompts.begin(), prompts.end());
  std::vector<CompletionText> texts(prompts.size(), CompletionText(tokenizer.get(), stops));
  const std::vector<int32_t> ends = end_tokens(model, tokenizer.get());
  sampling.stop_ids = ends;
  Tokens sink(texts, sampling, on_token);
  engine::ErrorCapture error;
  const int32_t status =
      environment.use_engine(Use::generate, [&] { return model.generate(spans, sampling, sink, error); });
  sink.throw_failure();
  error.check(status);
  std::vector<Completion> all;
  for (CompletionText& text : texts) {
    text.finish();
    all.push_back({text.ids(), text.text(), sink.reason(all.size())});
    all.back().ids.reserve(1);  // so that ids is an array even without tokens
  }
  return all;
}

}  // namespace trl::run
