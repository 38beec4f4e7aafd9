// trl_generator_* and trl_completions_*.
#include "base/threads/polled_lock.h"
#include "capi/callback.h"
#include "capi/config_handle.h"
#include "capi/guard.h"
#include "capi/model_handle.h"
#include "capi/trainer_handle.h"
#include "config/generation_kwargs.h"
#include "run/complete/complete.h"
#include "run/complete/request_options.h"
#include "run/open_model.h"

namespace trl::capi {

class Completions {
 public:
  explicit Completions(std::vector<run::Completion> all) : all_(std::move(all)), json_(all_.size()) {}
  const run::Completion* at(size_t index) const { return index < all_.size() ? &all_[index] : nullptr; }
  // JSON; made when it is first wanted. null: there is no completion with this number.
  const std::string* json(size_t index) const {
    if (index >= all_.size()) return nullptr;
    const std::lock_guard lock(writing_);
    std::string& text = json_[index];
    if (text.empty()) text = run::json_of(all_[index]).dump();
    return &text;
  }

 private:
  const std::vector<run::Completion> all_;
  mutable std::mutex writing_;
  mutable std::vector<std::string> json_;
};

// Generates from a model, or from a trainer's weights: exactly one of the two is set.
class Generator {
 public:
  Generator(std::shared_ptr<Model> model, std::shared_ptr<run::Tokenizer> tokenizer)
      : model_(std::move(model)), tokenizer_(std::move(tokenizer)) {}
  explicit Generator(std::shared_ptr<Trainer> trainer)
      : trainer_(std::move(trainer)), tokenizer_(trainer_->tokenizer()) {}

  std::vector<run::Completion> generate(std::span<const std::string_view> prompts,
                                        const config::Config& options, trl_token_fn on_token,
                                        void* user_data);

 private:
  std::vector<run::Completion> run(Runtime& runtime, engine::Model& model,
                                   std::span<const std::string_view> prompts, const config::Config& options,
                                   trl_token_fn on_token, void* user_data);
  const std::shared_ptr<Model> model_;
  const std::shared_ptr<Trainer> trainer_;
  const std::shared_ptr<run::Tokenizer> tokenizer_;
  std::mutex in_use_;
};

namespace {

run::OnToken told(trl_token_fn on_token, void* user_data) {
  if (on_token == nullptr) return nullptr;
  return [=](size_t prompt, int32_t id, const std::string& piece) {
    return call_host("token", [&] { return on_token(user_data, prompt, id, piece.c_str(), piece.size()); });
  };
}

}  // namespace

std::vector<run::Completion> Generator::run(Runtime& runtime, engine::Model& model,
                                            std::span<const std::string_view> prompts,
                                            const config::Config& given, trl_token_fn on_token,
                                            void* user_data) {
  const config::Config options = config::with_generation_kwargs(given);
  const std::vector<std::vector<int32_t>> ids = run::prompt_ids(*tokenizer_, prompts, options);
  const engine::Sampling sampling =
      run::sampling_of(options, *tokenizer_, run::end_tokens(model, tokenizer_->get()));
  return run::complete(runtime, model, *tokenizer_, ids, sampling, run::stops_of(options),
                       told(on_token, user_data));
}

std::vector<run::Completion> Generator::generate(std::span<const std::string_view> prompts,
                                                 const config::Config& options, trl_token_fn on_token,
                                                 void* user_data) {
  const auto lock = sole_use(in_use_, "generator");
  if (trainer_) {
    return trainer_->exclusively(
        [&] { return run(*trainer_->runtime(), trainer_->model(), prompts, options, on_token, user_data); });
  }
  const RuntimeScope scope(*model_->runtime());
  const auto one = base::polled_lock(model_->in_use());  // another generator of the same model waits
  return run(*model_->runtime(), model_->get(), prompts, options, on_token, user_data);
}

}  // namespace trl::capi

struct trl_generator : trl::capi::Handle<trl::capi::Generator, trl::capi::Tag::generator> {
  using Handle::Handle;
};
struct trl_completions : trl::capi::Handle<trl::capi::Completions, trl::capi::Tag::completions> {
  using Handle::Handle;
};

using namespace trl::capi;

namespace {

std::vector<std::string_view> prompt_views(const char* const* prompts, const size_t* lengths, size_t count) {
  if (count > 0) need(prompts, "prompts");
  std::vector<std::string_view> views;
  for (size_t i = 0; i < count; ++i) {
    const std::string name = fmt::format("prompts[{}]", i);
    if (prompts[i] == nullptr) fail_null(name);
    views.push_back(
        utf8(prompts[i], lengths != nullptr ? lengths[i] : std::char_traits<char>::length(prompts[i]), name));
  }
  return views;
}

const Completions* all(const trl_completions* completions) {
  return completions != nullptr && completions->is(Tag::completions) ? completions->object.get() : nullptr;
}

const trl::run::Completion* completion(const trl_completions* completions, size_t index) {
  const Completions* const found = all(completions);
  return found != nullptr ? found->at(index) : nullptr;
}

}  // namespace

trl_status trl_generator_create(trl_model* model, trl_tokenizer* tokenizer, trl_generator** out_generator,
                                trl_error** error) noexcept {
  return guard(error, out_generator, [&] {
    const auto shared = get(model, "model");
    auto text = get_or_null(tokenizer, "tokenizer");
    need(out_generator, "out_generator");
    const RuntimeScope scope(*shared->runtime());
    if (!text) text = shared->tokenizer();
    *out_generator = new trl_generator(std::make_shared<Generator>(shared, std::move(text)));
  });
}

trl_status trl_generator_from_trainer(trl_trainer* trainer, trl_generator** out_generator,
                                      trl_error** error) noexcept {
  return guard(error, out_generator, [&] {
    const auto shared = get(trainer, "trainer");
    need(out_generator, "out_generator");
    *out_generator = new trl_generator(std::make_shared<Generator>(shared));
  });
}

trl_status trl_generator_generate(trl_generator* generator, const char* const* prompts, const size_t* lengths,
                                  size_t count, const trl_config* options, trl_token_fn on_token,
                                  void* user_data, trl_completions** out_completions,
                                  trl_error** error) noexcept {
  return guard(error, out_completions, [&] {
    const auto shared = get(generator, "generator");
    const auto views = prompt_views(prompts, lengths, count);
    auto all = shared->generate(views, options_of(options), on_token, user_data);
    if (out_completions == nullptr) return;
    *out_completions = new trl_completions(std::make_shared<Completions>(std::move(all)));
  });
}

void trl_generator_destroy(trl_generator* generator) noexcept { destroy(generator); }

const char* trl_completions_text(const trl_completions* completions, size_t index,
                                 size_t* out_size) noexcept {
  return answer(nullptr, [&]() -> const char* {
    const trl::run::Completion* found = completion(completions, index);
    if (out_size != nullptr) *out_size = found != nullptr ? found->text.size() : 0;
    return found != nullptr ? found->text.c_str() : nullptr;
  });
}

const int32_t* trl_completions_tokens(const trl_completions* completions, size_t index,
                                      size_t* out_count) noexcept {
  return answer(nullptr, [&]() -> const int32_t* {
    const trl::run::Completion* found = completion(completions, index);
    if (out_count != nullptr) *out_count = found != nullptr ? found->ids.size() : 0;
    return found != nullptr ? found->ids.data() : nullptr;
  });
}

const char* trl_completions_finish_reason(const trl_completions* completions, size_t index) noexcept {
  return answer(nullptr, [&]() -> const char* {
    const trl::run::Completion* found = completion(completions, index);
    return found != nullptr ? found->finish_reason : nullptr;
  });
}

const char* trl_completions_json(const trl_completions* completions, size_t index,
                                 size_t* out_size) noexcept {
  return answer(nullptr, [&]() -> const char* {
    const Completions* const found = all(completions);
    const std::string* const text = found != nullptr ? found->json(index) : nullptr;
    if (out_size != nullptr) *out_size = text != nullptr ? text->size() : 0;
    return text != nullptr ? text->c_str() : nullptr;
  });
}

void trl_completions_destroy(trl_completions* completions) noexcept { destroy(completions); }
