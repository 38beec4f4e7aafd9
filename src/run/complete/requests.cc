#include "run/complete/requests.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/renumber.h"
#include "engine/error_capture.h"
#include "run/complete/request_options.h"

namespace trl::run {

Requests::Requests(Environment& environment, EngineObject<engine::Generator> generator,
                   const Tokenizer& tokenizer, std::vector<int32_t> ends)
    : environment_(environment),
      generator_(std::move(generator)),
      tokenizer_(tokenizer),
      ends_(std::move(ends)) {}

int64_t Requests::add(std::span<const int32_t> ids, const RequestOptions& options) {
  engine::Sampling sampling = options.sampling;
  if (options.own_ends) sampling.own_end_ids = ends_;
  const engine::GenerationRequest request{.ids = ids,
                                          .sampling = &sampling,
                                          .count = options.count,
                                          .stream = options.stream,
                                          .keeps = options.keeps};
  const auto prompt = std::make_shared<Prompt>(Prompt{.ids = std::ssize(ids)});
  if (sampling.prompt_best >= 0) {
    prompt->tokens = std::make_shared<std::vector<engine::PromptToken>>();
    prompt->tokens->reserve(ids.size());
  }
  std::map<int64_t, State> added;
  for (int64_t i = 0; i < options.count; ++i)
    added.emplace(i, State{{}, text::CompletionText(tokenizer_.get(), options.stops), options, prompt});
  int64_t first = 0;
  engine::ErrorCapture error;
  with_option_names([&] {
    error.check(
        environment_.use_engine(Use::generate, [&] { return generator_->add(request, &first, error); }));
  });
  base::renumber(added, first, states_);
  for (int64_t i = 0; i < options.count; ++i) note_weights(at(first + i), first + i);
  return first;
}

bool Requests::step(const OnToken& on_token) {
  engine::ErrorCapture error;
  told_ = &on_token;
  const int32_t status =
      environment_.use_engine(Use::generate, [&] { return generator_->step(*this, error); });
  told_ = nullptr;
  if (failure_ != nullptr) std::rethrow_exception(std::exchange(failure_, nullptr));
  return error.check(status);
}

Requests::State& Requests::at(int64_t number) {
  const auto found = states_.find(number);
  if (found == states_.end()) {
    fail(Status::not_found, "completion {}: there is none, or it was taken or cancelled", number);
  }
  return found->second;
}

void Requests::extend(int64_t number, std::span<const int32_t> ids, int64_t max_new_tokens) {
  State& state = at(number);
  engine::ErrorCapture error;
  error.check(environment_.use_engine(
      Use::generate, [&] { return generator_->extend(number, ids, max_new_tokens, error); }));
  std::optional<Weights> weights = std::move(state.completion.weights);
  state.completion = {};
  state.completion.weights = std::move(weights);
  state.text = text::CompletionText(tokenizer_.get(), state.options.stops);
  state.prompt = std::make_shared<Prompt>();
  state.kept = state.taken = false;
  state.taken_ids = state.taken_text = 0;
}

void Requests::cancel(int64_t first, int64_t count) {
  for (auto one = states_.lower_bound(first); one != states_.end() && one->first - first < count;) {
    State& state = one->second;
    generator_->end(one->first);
    state.kept = false;
    const bool goes = state.completion.end != End::none && state.taken;
    if (state.completion.end == End::none) {
      state.text.finish();
      state.completion.end = End::cancelled;
    }
    one = goes ? states_.erase(one) : std::next(one);
  }
}

Completion Requests::copy(const State& state) {
  Completion completion = state.completion;
  const bool news = state.options.takes_new;
  const std::vector<int32_t>& ids = state.text.ids();
  completion.ids.assign(ids.begin() + static_cast<std::ptrdiff_t>(state.taken_ids), ids.end());
  completion.text =
      news ? state.text.certain().substr(state.taken_text) : std::string_view(state.text.text());
  completion.ids.reserve(1);  // so that ids is an array even without tokens
  const std::string* const stop = state.text.stop();
  if (completion.end == End::stop_string && stop != nullptr) completion.stop = *stop;
  const Prompt& prompt = *state.prompt;
  if (state.options.tells_usage) completion.cached = prompt.cached;
  if (prompt.tokens != nullptr && std::ssize(*prompt.tokens) + 1 == prompt.ids)
    completion.prompt = prompt.tokens;  // it changes no more
  return completion;
}

std::vector<Completion> Requests::take(int64_t first, int64_t count) {
  std::vector<Completion> all;
  for (int64_t i = 0; i < count; ++i) all.push_back(copy(at(first + i)));
  for (int64_t i = 0; i < count; ++i) {
    State& state = at(first + i);
    state.taken = state.completion.end != End::none;
    if (state.options.takes_new) {
      state.completion.tokens.clear();
      state.taken_ids = state.text.ids().size();
      state.taken_text = state.text.certain().size();
    }
    if (state.taken && !state.kept) states_.erase(first + i);
  }
  return all;
}

void Requests::release_memory() {
  engine::ErrorCapture error;
  error.check(environment_.use_engine(Use::generate, [&] { return generator_->release_memory(error); }));
}

// Without memory for a name it stays as it is: the completion matters more.
void Requests::note_weights(State& state, int64_t number) noexcept {
  if (beside_ == nullptr) return;
  const engine::UsedWeights used = beside_->weights_of(*generator_, number);
  try {
    state.completion.weights = Weights{std::string(used.adapter), used.version, used.last_version};
  } catch (const std::bad_alloc&) {
    return;
  }
}

int64_t Requests::version_of(int64_t number) const noexcept {
  const auto found = states_.find(number);
  if (found == states_.end()) return -1;
  const std::optional<Weights>& weights = found->second.completion.weights;
  return weights ? weights->version : -1;
}

// Returns whether the completion continues.
bool Requests::add_token(State& state, int64_t number, const engine::Token& token) {
  Completion& completion = state.completion;
  note_weights(state, number);
  if (state.options.sampling.log_probabilities) completion.tokens.push_back(token);
  if (state.text.add(token.id)) completion.end = End::stop_string;
  if (token.last && state.text.finish()) completion.end = End::stop_string;
  if (*told_ == nullptr) return completion.end == End::none;
  const double log_probability = state.options.sampling.log_probabilities
                                     ? token.whole_log_probability
                                     : std::numeric_limits<double>::quiet_NaN();
  const int32_t answer =
      (*told_)(static_cast<size_t>(number), token.id, std::string(state.text.take()), log_probability);
  if (answer != 0 && !token.last && completion.end == End::none) completion.end = End::refused;
  return completion.end == End::none;
}

// A sequence whose addition failed in the engine at its end is nobody's.
bool Requests::on_token(int64_t number, const engine::Token& token) noexcept {
  const auto found = states_.find(number);
  if (found == states_.end()) return false;
  State& state = found->second;
  try {
    return add_token(state, number, token);
  } catch (...) {
    if (failure_ == nullptr) failure_ = std::current_exception();
    state.completion.end = End::refused;
    return false;
  }
}

void Requests::on_begin(int64_t number, int64_t known) noexcept {
  if (const auto found = states_.find(number); found != states_.end()) found->second.prompt->cached = known;
}

void Requests::on_prompt(int64_t number, const engine::PromptToken& token) noexcept {
  const auto found = states_.find(number);
  if (found == states_.end() || found->second.prompt->tokens == nullptr) return;
  try {
    found->second.prompt->tokens->push_back(token);
  } catch (...) {
    if (failure_ == nullptr) failure_ = std::current_exception();
  }
}

// Returns the newest id if only the request names it as one that ends a completion.
std::optional<int32_t> Requests::stop_id_of(const State& state) const {
  if (state.text.ids().empty()) return std::nullopt;
  const int32_t id = state.text.ids().back();
  const auto has = [id](const std::vector<int32_t>& ids) { return std::ranges::find(ids, id) != ids.end(); };
  const engine::Sampling& own = state.options.sampling;
  const bool is_end = has(own.eos_ids) || (state.options.own_ends && has(ends_));
  return !is_end && has(own.stop_ids) ? std::optional(id) : std::nullopt;
}

void Requests::on_end(int64_t number, engine::Finish how, std::string_view error) noexcept {
  const auto found = states_.find(number);
  if (found == states_.end()) return;
  State& state = found->second;
  End& end = state.completion.end;
  state.kept = state.options.keeps && how != engine::Finish::failed;
  state.text.finish();
  // A stop text that is the end token itself changes nothing.
  const bool only_token = end == End::none || (end == End::stop_string && !state.text.is_cut());
  if (how == engine::Finish::stop_id && only_token) {
    end = End::stop;
    state.completion.stop_id = stop_id_of(state);
  }
  if (how == engine::Finish::length && end == End::none) end = End::length;
  if (how != engine::Finish::failed) return;
  end = End::failed;
  state.completion.error = error;
}

}  // namespace trl::run
