// The tokens of a generator: how they are chosen, passed on, and how a sequence ends.
#include <algorithm>
#include <array>
#include <exception>
#include <utility>

#include "base/error.h"
#include "generate/choice.h"
#include "generate/generator.h"
#include "generate/sampling.h"
#include "kernels/kinds.h"
#include "tensor/threads/parallel.h"

namespace trl::generate {

// Calls a function of the sink, which may wait for a thread that destroys another generator of the cache.
template <class Call>
void Generator::unlocked(const Call& call) const {
  cache_->in_use.unlock();
  call();
  cache_->in_use.lock();
}

std::string Generator::what_is_allowed(int64_t sequence) const {
  const State& state = states_.at(sequence);
  const int64_t tokens = std::ssize(scheduler_->ids(sequence)), limit = scheduler_->pool().limit();
  return fmt::format(
      "{} tokens: no more keys and values fit into kv_cache_memory, {} bytes; those of that many tokens take "
      "{} "
      "bytes, in blocks of {} for {} tokens each: allow {} bytes for all tokens that are asked for, or ask "
      "for at most {} (max_new_tokens)",
      tokens, limit * block_bytes(), Scheduler::blocks_of(tokens) * block_bytes(), block_bytes(),
      kernels::kCacheRows, Scheduler::blocks_of(tokens + state.left - 1) * block_bytes(),
      limit * kernels::kCacheRows + 1 - state.begin);
}

// Passes rows of logits, from that of the first need on, to the sequences that need them. Memory that is
// missing on any thread is an error of the step.
void Generator::fulfil_all(std::span<const Need> needs, const at::Tensor& logits) const {
  std::vector<std::exception_ptr> failures(needs.size());
  tensor::parallel_for(std::ssize(needs), 1, [&](int64_t begin, int64_t end) {
    for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
      try {
        fulfil(needs[i], logits.narrow(0, needs[i].row - needs[0].row, needs[i].rows));
      } catch (...) {
        failures[i] = std::current_exception();
      }
    }
  });
  for (const std::exception_ptr& failure : failures)
    if (failure != nullptr) std::rethrow_exception(failure);
}

void Generator::fulfil(const Need& need, const at::Tensor& logits) const {
  if (need.choice != nullptr) return choose(*need.choice, logits);
  const engine::Sampling& sampling = states_.at(need.scored->sequence).request->sampling;
  score_id({logits.data_ptr<float>(), static_cast<size_t>(logits.numel())}, sampling.prompt_best,
           sampling.prompt_temperature, need.scored->token);
}

// Each token is chosen as if it were the only one of its step.
void Generator::choose(Choice& choice, const at::Tensor& rows) const {
  const State& state = states_.at(choice.sequence);
  const engine::Sampling& sampling = state.request->sampling;
  const std::span<const int32_t> tentative = scheduler_->tentative(choice.sequence);
  std::span<const int32_t> ids = scheduler_->ids(choice.sequence);
  engine::Constraint::Place place = state.place;
  std::vector<int32_t> longer;
  choice.tokens.clear();
  for (int64_t i = 0; i < choice.rows; ++i) {
    const at::Tensor row = rows[i];
    const std::span<const float> logits(row.data_ptr<float>(), static_cast<size_t>(row.numel()));
    const double draw = uniform(sampling.seed, state.stream, static_cast<uint64_t>(state.drawn + i));
    std::shared_ptr<const engine::AllowedIds> allowed;
    if (sampling.constraint != nullptr) {
      allowed = sampling.constraint->allowed(place, choice.problem);
      if (allowed == nullptr) return;
    }
    engine::Token token;
    choice.problem =
        choose_token(logits, ids, static_cast<size_t>(state.begin), sampling, draw, token, allowed.get());
    if (!choice.problem.empty()) return;
    choice.tokens.push_back(token);
    if (i + 1 == choice.rows || token.id != tentative[static_cast<size_t>(i)]) return;
    if (sampling.constraint != nullptr) {
      place = sampling.constraint->after(place, token.id);
      if (place == nullptr) return;  // the text ends
    }
    if (longer.empty()) longer.assign(ids.begin(), ids.end());
    longer.push_back(token.id);
    ids = longer;
  }
}

// Tells each id once: a sequence that is computed again, or that continues a prompt after another one has
// gone, tells only the rest.
void Generator::tell_prompts(const Scheduler::Step& step, const std::vector<Scored>& scored,
                             engine::GenerationSink& sink) {
  for (const Scheduler::Work& work : step.work)
    if (!std::exchange(states_.at(work.sequence).told->begun, true))
      unlocked([&] { sink.on_begin(work.sequence, work.first); });
  for (const Scored& one : scored) {
    states_.at(one.sequence).told->ids = one.token.position + 1;
    unlocked([&] { sink.on_prompt(one.sequence, one.token); });
  }
}

void Generator::pass_on(const Choice& choice, engine::GenerationSink& sink) {
  for (const engine::Token& token : choice.tokens)
    if (!pass_on(choice.sequence, token, sink)) return;
  if (choice.problem.empty()) return;
  finish(choice.sequence, engine::Finish::failed, sink,
         fmt::format("token {}: {}", states_.at(choice.sequence).drawn, choice.problem));
}

// Returns whether the sequence continues.
bool Generator::pass_on(int64_t sequence, engine::Token token, engine::GenerationSink& sink) {
  using engine::Finish;
  State& state = states_.at(sequence);
  scheduler_->append(sequence, token.id);
  ++state.drawn;
  --state.left;
  if (state.draft) {
    state.draft->follow(token.id);
    right_ += (state.draft->right() - right_) / 64;
  }
  const Finish how = follow(state, token.id, end_of(sequence, token.id));
  token.last = how != Finish::none;
  bool goes_on = false;
  unlocked([&] { goes_on = sink.on_token(sequence, token); });
  if (how == Finish::none && goes_on) return true;
  if (how == Finish::failed)
    finish(sequence, how, sink, what_is_allowed(sequence));
  else
    finish(sequence, goes_on || how == Finish::stop_id ? how : Finish::refused, sink);
  return false;
}

bool Generator::has_end(const engine::Sampling& sampling) const {
  const auto known = [&](int32_t id) { return id >= 0 && id < model_.config().vocab_size; };
  return std::ranges::any_of(std::array{&sampling.stop_ids, &sampling.eos_ids, &sampling.own_end_ids},
                             [&](const auto* ids) { return std::ranges::any_of(*ids, known); });
}

// Takes the newest token into the place of the constraint. A text that must end, without an id to end it,
// ends.
engine::Finish Generator::follow(State& state, int32_t id, engine::Finish how) const {
  const engine::Sampling& sampling = state.request->sampling;
  if (sampling.constraint == nullptr || how == engine::Finish::stop_id) return how;
  state.place = sampling.constraint->after(state.place, id);
  const bool over = sampling.constraint->is_over(state.place) && !has_end(sampling);
  return over ? engine::Finish::stop_id : how;
}

// Returns how a sequence ends with its newest token.
engine::Finish Generator::end_of(int64_t sequence, int32_t id) const {
  const State& state = states_.at(sequence);
  const engine::Sampling& sampling = state.request->sampling;
  const int64_t length = std::ssize(scheduler_->ids(sequence)),
                positions = model_.config().learned_positions();
  for (const auto* const ends : {&sampling.stop_ids, &sampling.eos_ids, &sampling.own_end_ids})
    if (std::ranges::find(*ends, id) != ends->end()) return engine::Finish::stop_id;
  if (state.left == 0 || (positions > 0 && length > positions)) return engine::Finish::length;
  const bool fits = Scheduler::blocks_of(length) <= scheduler_->pool().limit();
  return fits ? engine::Finish::none : engine::Finish::failed;
}

void Generator::finish(int64_t sequence, engine::Finish how, engine::GenerationSink& sink,
                       const std::string& error) {
  State& state = states_.at(sequence);
  state.ended = state.request->keeps && how != engine::Finish::failed;
  if (state.ended)
    scheduler_->pause(sequence);
  else
    forget(sequence);
  unlocked([&] { sink.on_end(sequence, how, error); });
}

}  // namespace trl::generate
