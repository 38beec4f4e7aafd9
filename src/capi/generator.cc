// trl_generator_* and trl_completions_*.
#include "base/polled_lock.h"
#include "capi/complete.h"
#include "capi/config_handle.h"
#include "capi/conversation.h"
#include "capi/guard.h"
#include "capi/model_handle.h"
#include "capi/trainer_handle.h"

namespace trl::capi {

class Completions {
 public:
  explicit Completions(std::vector<Completion> all) : all_(std::move(all)) {}
  const Completion* at(size_t index) const { return index < all_.size() ? &all_[index] : nullptr; }

 private:
  const std::vector<Completion> all_;
};

// Over a model, or over a trainer's weights: exactly one of the two is there.
class Generator {
 public:
  Generator(std::shared_ptr<Model> model, std::shared_ptr<Tokenizer> tokenizer)
      : model_(std::move(model)), tokenizer_(std::move(tokenizer)) {}
  explicit Generator(std::shared_ptr<Trainer> trainer)
      : trainer_(std::move(trainer)), tokenizer_(trainer_->tokenizer()) {}

  std::vector<Completion> generate(std::span<const std::string_view> prompts, const config::Config& options,
                                   trl_token_fn on_token, void* user_data);

 private:
  std::vector<Completion> run(engine::Model& model, std::span<const std::string_view> prompts,
                              const config::Config& options, trl_token_fn on_token, void* user_data);
  const std::shared_ptr<Model> model_;
  const std::shared_ptr<Trainer> trainer_;
  const std::shared_ptr<Tokenizer> tokenizer_;
  std::mutex in_use_;
};

namespace {

// What it has is valid as long as `adapter` is.
engine::Sampling sampling_of(const config::Config& options, const std::string& adapter) {
  engine::Sampling sampling;
  sampling.max_new_tokens = options.get_int("generate.max_new_tokens");
  sampling.temperature = options.get_double("generate.temperature");
  sampling.top_p = options.get_double("generate.top_p");
  sampling.top_k = options.get_int("generate.top_k");
  sampling.min_p = options.get_double("generate.min_p");
  sampling.repetition_penalty = options.get_double("generate.repetition_penalty");
  sampling.seed = static_cast<uint64_t>(options.get_int("generate.seed"));
  sampling.adapter = adapter;
  return sampling;
}

// How often each prompt is completed.
int64_t sequences(const config::Config& options) {
  constexpr std::string_view kKey = "generate.num_return_sequences";
  const int64_t count = options.get_int(kKey);
  if (count > 1 && options.get_double("generate.temperature") == 0)
    fail_key(kKey, "{}: {} needs generate.temperature above 0: greedy completions of one prompt are equal",
             kKey, count);
  return count;
}

// The ids of a prompt in the chat template; a system message of its own is used instead of `system`.
std::vector<int32_t> chat_ids(const Tokenizer& tokenizer, std::string_view prompt,
                              const std::optional<std::string>& system) {
  auto [messages, tools] = conversation_of(prompt);
  if (system && (messages.empty() || messages[0].value("role", "") != "system"))
    messages.insert(messages.begin(), base::Json{{"role", "system"}, {"content", *system}});
  return conversation_ids(tokenizer, messages, tools);
}

// The ids of each prompt, as often as it is completed.
std::vector<std::vector<int32_t>> prompt_ids(const Tokenizer& tokenizer,
                                             std::span<const std::string_view> prompts,
                                             const config::Config& options) {
  const bool chat = options.get_bool("generate.chat");
  const std::optional<std::string> system = options.get_text("generate.system");
  if (system && !chat)
    fail_key("generate.system",
             "generate.system: it needs generate.chat: true: a prompt as it stands has no messages");
  const int64_t times = sequences(options);
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

}  // namespace

std::vector<Completion> Generator::run(engine::Model& model, std::span<const std::string_view> prompts,
                                       const config::Config& options, trl_token_fn on_token,
                                       void* user_data) {
  const std::vector<std::vector<int32_t>> ids = prompt_ids(*tokenizer_, prompts, options);
  std::vector<std::string> stops = options.get_list("generate.stop");
  std::erase(stops, "");
  const std::string adapter = options.get_text("generate.adapter").value_or("");
  return complete(model, *tokenizer_, ids, sampling_of(options, adapter), stops, on_token, user_data);
}

std::vector<Completion> Generator::generate(std::span<const std::string_view> prompts,
                                            const config::Config& options, trl_token_fn on_token,
                                            void* user_data) {
  const std::unique_lock lock(in_use_, std::try_to_lock);
  if (!lock) fail(Status::busy, "generator is in use on another thread");
  if (trainer_) {
    return trainer_->exclusively(
        [&] { return run(trainer_->model(), prompts, options, on_token, user_data); });
  }
  const RuntimeScope scope(*model_->runtime());
  const auto one = base::polled_lock(model_->in_use());  // another generator of the same model waits
  return run(model_->get(), prompts, options, on_token, user_data);
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

const Completion* completion(const trl_completions* completions, size_t index) {
  return completions != nullptr && completions->is(Tag::completions) ? completions->object->at(index)
                                                                     : nullptr;
}

}  // namespace

trl_status trl_generator_create(trl_model* model, trl_tokenizer* tokenizer, trl_generator** out_generator,
                                trl_error** error) noexcept {
  return guard(
      error,
      [&] {
        const auto shared = get(model, "model");
        auto text = get_or_null(tokenizer, "tokenizer");
        need(out_generator, "out_generator");
        const RuntimeScope scope(*shared->runtime());
        if (!text) text = shared->tokenizer();
        *out_generator = new trl_generator(std::make_shared<Generator>(shared, std::move(text)));
      },
      out_generator);
}

trl_status trl_generator_from_trainer(trl_trainer* trainer, trl_generator** out_generator,
                                      trl_error** error) noexcept {
  return guard(
      error,
      [&] {
        const auto shared = get(trainer, "trainer");
        need(out_generator, "out_generator");
        *out_generator = new trl_generator(std::make_shared<Generator>(shared));
      },
      out_generator);
}

trl_status trl_generator_generate(trl_generator* generator, const char* const* prompts, const size_t* lengths,
                                  size_t count, const trl_config* options, trl_token_fn on_token,
                                  void* user_data, trl_completions** out_completions,
                                  trl_error** error) noexcept {
  return guard(
      error,
      [&] {
        const auto shared = get(generator, "generator");
        const auto views = prompt_views(prompts, lengths, count);
        auto all = shared->generate(views, options_of(options), on_token, user_data);
        if (out_completions == nullptr) return;
        *out_completions = new trl_completions(std::make_shared<Completions>(std::move(all)));
      },
      out_completions);
}

void trl_generator_destroy(trl_generator* generator) noexcept { destroy(generator); }

const char* trl_completions_text(const trl_completions* completions, size_t index,
                                 size_t* out_size) noexcept {
  return answer(nullptr, [&]() -> const char* {
    const Completion* found = completion(completions, index);
    if (out_size != nullptr) *out_size = found != nullptr ? found->text.size() : 0;
    return found != nullptr ? found->text.c_str() : nullptr;
  });
}

const int32_t* trl_completions_tokens(const trl_completions* completions, size_t index,
                                      size_t* out_count) noexcept {
  return answer(nullptr, [&]() -> const int32_t* {
    const Completion* found = completion(completions, index);
    if (out_count != nullptr) *out_count = found != nullptr ? found->ids.size() : 0;
    return found != nullptr ? found->ids.data() : nullptr;
  });
}

const char* trl_completions_finish_reason(const trl_completions* completions, size_t index) noexcept {
  return answer(nullptr, [&]() -> const char* {
    const Completion* found = completion(completions, index);
    return found != nullptr ? found->finish_reason : nullptr;
  });
}

void trl_completions_destroy(trl_completions* completions) noexcept { destroy(completions); }
