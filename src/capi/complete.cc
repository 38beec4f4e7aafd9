#include "capi/complete.h"

#include <algorithm>
#include <exception>

#include "capi/callback.h"
#include "capi/completion_text.h"
#include "capi/model_handle.h"
#include "capi/process.h"
#include "engine/error_capture.h"

namespace trl::capi {

namespace {

class Tokens final : public engine::TokenSink {
 public:
  Tokens(std::vector<CompletionText>& texts, const engine::Sampling& sampling, trl_token_fn function,
         void* user_data)
      : texts_(texts),
        sampling_(sampling),
        function_(function),
        user_data_(user_data),
        reasons_(texts.size(), kLength) {}
  bool on_token(int64_t prompt, int32_t id, float) noexcept override {
    if (has_failed()) return false;
    try {
      CompletionText& text = texts_[static_cast<size_t>(prompt)];
      const char* reason = add(text, id);
      if (reason != nullptr) text.finish();
      if (function_ != nullptr) {
        const std::string piece(text.take());
        const int32_t answer = call_host("token", [&] {
          return function_(user_data_, static_cast<size_t>(prompt), id, piece.c_str(), piece.size());
        });
        if (answer != 0 && reason == nullptr) reason = "callback";
      }
      if (reason != nullptr) reasons_[static_cast<size_t>(prompt)] = reason;
      return reason == nullptr;
    } catch (...) {
      keep_failure(std::current_exception());
      return false;
    }
  }

  const char* reason(size_t prompt) const { return reasons_[prompt]; }

 private:
  static constexpr const char* kLength = "length";
  // Why the text ends with this token; null: it goes on.
  const char* add(CompletionText& text, int32_t id) const {
    if (text.add(id)) return "stop_sequence";
    const auto& ends = sampling_.stop_ids;
    if (std::find(ends.begin(), ends.end(), id) != ends.end()) return "eos_token";
    return static_cast<int64_t>(text.ids().size()) == sampling_.max_new_tokens ? kLength : nullptr;
  }
  std::vector<CompletionText>& texts_;
  const engine::Sampling& sampling_;
  const trl_token_fn function_;
  void* const user_data_;
  std::vector<const char*> reasons_;
};

}  // namespace

std::vector<int32_t> text_ids(const Tokenizer& tokenizer, std::string_view text) {
  const auto& bos = tokenizer.get().special().bos;
  return tokenizer.get().encode(text, !(bos && text.starts_with(*bos)));
}

std::vector<int32_t> conversation_ids(const Tokenizer& tokenizer, const base::Json& messages,
                                      const base::Json& tools) {
  base::Json conversation = {{"messages", messages}, {"add_generation_prompt", true}};
  if (!tools.is_null()) conversation["tools"] = tools;
  return tokenizer.get().encode(tokenizer.apply_chat_template(conversation), false);
}

std::vector<Completion> complete(engine::Model& model, const Tokenizer& tokenizer,
                                 std::span<const std::vector<int32_t>> prompts, engine::Sampling sampling,
                                 const std::vector<std::string>& stops, trl_token_fn on_token,
                                 void* user_data) {
  const std::vector<std::span<const int32_t>> spans(prompts.begin(), prompts.end());
  std::vector<CompletionText> texts(prompts.size(), CompletionText(tokenizer.get(), stops));
  const std::vector<int32_t> ends = end_tokens(model, tokenizer.get());
  sampling.stop_ids = ends;
  Tokens sink(texts, sampling, on_token, user_data);
  engine::ErrorCapture error;
  error.check(
      process().use_engine(Use::generate, [&] { return model.generate(spans, sampling, sink, error); }));
  std::vector<Completion> all;
  for (CompletionText& text : texts) {
    text.finish();
    all.push_back({text.ids(), text.text(), sink.reason(all.size())});
    all.back().ids.reserve(1);  // so that no tokens are an array too
  }
  return all;
}

}  // namespace trl::capi
