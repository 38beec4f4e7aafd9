// trl_generator_* and trl_completions_*.
#include <algorithm>

#include "base/error.h"
#include "capi/config_handle.h"
#include "capi/generator/generator_handle.h"
#include "capi/guard.h"

using namespace trl::capi;

namespace {

std::vector<std::string_view> prompt_views(const char* const* prompts, const size_t* lengths, size_t count) {
  elements(prompts, count, "prompts");
  std::vector<std::string_view> views;
  for (size_t i = 0; i < count; ++i) {
    const std::string name = fmt::format("prompts[{}]", i);
    if (prompts[i] == nullptr) fail_null(name);
    views.push_back(
        utf8(prompts[i], lengths != nullptr ? lengths[i] : std::char_traits<char>::length(prompts[i]), name));
  }
  return views;
}

Prompt prompt_of(const char* text, size_t size, const int32_t* ids, size_t count) {
  if ((text != nullptr) == (ids != nullptr))
    trl::fail(trl::Status::invalid_argument, "give either text or ids, and NULL for the other");
  if (text != nullptr) return {utf8(text, size, "text"), {}};
  return {std::nullopt, elements(ids, count, "ids")};
}

// Returns the numbers of completions [first, first + count) as the engine has them. No completion has one
// above the bound, so that those may be cut there.
std::pair<int64_t, int64_t> range_of(size_t first, size_t count) {
  constexpr size_t kMost = size_t{1} << 61;  // two of them are an int64_t
  return {static_cast<int64_t>(std::min(first, kMost)), static_cast<int64_t>(std::min(count, kMost))};
}

const trl::run::Completion* completion(const trl_completions* completions, size_t index) {
  return completions != nullptr && completions->is(Tag::completions) ? completions->object->at(index)
                                                                     : nullptr;
}

}  // namespace

trl_status trl_generator_create(trl_model* model, trl_tokenizer* tokenizer, trl_generator** out_generator,
                                trl_error** error) noexcept {
  return guard(error, out_generator, [&] {
    const auto shared = get(model, "model");
    auto text = get_or_null(tokenizer, "tokenizer");
    need(out_generator, "out_generator");
    if (shared->scores())
      trl::fail(trl::Status::unsupported, "model: a reward model scores text and cannot generate it");
    const RuntimeScope scope(*shared->runtime());
    if (!text) text = shared->tokenizer();
    *out_generator = new trl_generator(std::make_shared<Generator>(shared, std::move(text)));
  });
}

trl_status trl_generator_generate(trl_generator* generator, const char* const* prompts, const size_t* lengths,
                                  size_t count, const trl_config* options, trl_token_fn on_token,
                                  void* user_data, trl_completions** out_completions,
                                  trl_error** error) noexcept {
  return guard<From::rollouts>(error, out_completions, [&] {
    const auto shared = get(generator, "generator");
    const auto views = prompt_views(prompts, lengths, count);
    auto all = shared->generate(views, options_of(options), on_token, user_data);
    if (out_completions == nullptr) return;
    *out_completions = new trl_completions(std::make_shared<Completions>(std::move(all), false));
  });
}

trl_status trl_generator_add(trl_generator* generator, const char* text, size_t size, const int32_t* ids,
                             size_t count, const trl_config* options, size_t* out_first,
                             trl_error** error) noexcept {
  return guard<From::rollouts>(error, [&] {
    const auto shared = get(generator, "generator");
    need(out_first, "out_first");
    *out_first = static_cast<size_t>(shared->add(prompt_of(text, size, ids, count), options_of(options)));
  });
}

trl_status trl_generator_step(trl_generator* generator, trl_token_fn on_token, void* user_data,
                              trl_error** error) noexcept {
  return guard<From::rollouts>(error, [&] {
    const auto shared = get(generator, "generator");
    return shared->step(on_token, user_data) ? trl::Status::ok : trl::Status::end;
  });
}

trl_status trl_generator_extend(trl_generator* generator, size_t completion, const char* text, size_t size,
                                const int32_t* ids, size_t count, const trl_config* options,
                                trl_error** error) noexcept {
  return guard<From::rollouts>(error, [&] {
    const auto shared = get(generator, "generator");
    shared->extend(range_of(completion, 1).first, prompt_of(text, size, ids, count), options_of(options));
  });
}

trl_status trl_generator_cancel(trl_generator* generator, size_t first, size_t count,
                                trl_error** error) noexcept {
  return guard<From::rollouts>(error, [&] {
    const auto [begin, number] = range_of(first, count);
    get(generator, "generator")->cancel(begin, number);
  });
}

trl_status trl_generator_take(trl_generator* generator, size_t first, size_t count,
                              trl_completions** out_completions, trl_error** error) noexcept {
  return guard<From::rollouts>(error, out_completions, [&] {
    const auto shared = get(generator, "generator");
    need(out_completions, "out_completions");
    const auto [begin, number] = range_of(first, count);
    *out_completions = new trl_completions(std::make_shared<Completions>(shared->take(begin, number), true));
  });
}

trl_status trl_generator_release_memory(trl_generator* generator, trl_error** error) noexcept {
  return guard<From::rollouts>(error, [&] { get(generator, "generator")->release_memory(); });
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
    return found != nullptr ? completions->object->finish_reason(*found) : nullptr;
  });
}

const char* trl_completions_json(const trl_completions* completions, size_t index,
                                 size_t* out_size) noexcept {
  return answer(nullptr, [&]() -> const char* {
    const trl::run::Completion* found = completion(completions, index);
    if (out_size != nullptr) *out_size = 0;
    return found != nullptr ? completions->object->json(*found, out_size) : nullptr;
  });
}

void trl_completions_destroy(trl_completions* completions) noexcept { destroy(completions); }
