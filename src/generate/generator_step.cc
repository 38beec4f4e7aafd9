// The steps of a generator: which sequences, with how many proposed ids, and in which blocks.
#include <algorithm>
#include <chrono>
#include <iterator>
#include <new>
#include <utility>

#include "base/error.h"
#include "generate/generator.h"
#include "kernels/kinds.h"
#include "tensor/device.h"
#include "tensor/memory/rehearsal.h"

namespace trl::generate {

namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

// Sequences are computed together, in the order of their adapters, unless these change more than projections.
bool Generator::step(engine::GenerationSink& sink) {
  const at::NoGradGuard no_grad;
  const kernels::PathScope path(cache_->kind.path);
  const std::lock_guard lock(cache_->in_use);
  cache_->follow_weights();
  const size_t all = states_.size();
  const bool looks_up = propose();
  const Scheduler::Step step = next_step(sink);
  const auto begin = Clock::now();
  if (step.empty()) return !idle() || states_.size() < all;
  for (const auto& [from, to] : step.copies) tensor::copy(block(from), block(to));
  std::map<const model::Adapter*, std::vector<const Scheduler::Work*>> groups;
  for (const Scheduler::Work& work : step.work) {
    const model::Adapter* const adapter = adapter_of(work);
    model_.adapters().check_usable(adapter);
    groups[model_.only_adds_terms(adapter) ? nullptr : adapter].push_back(&work);
  }
  std::vector<Choice> choices;
  std::vector<Scored> scored;
  for (auto& [adapter, work] : groups) {
    std::ranges::stable_sort(work, {}, [&](const auto* one) { return adapter_of(*one); });
    Results made = compute(work);
    std::ranges::move(made.choices, std::back_inserter(choices));
    std::ranges::move(made.scored, std::back_inserter(scored));
  }
  scheduler_->done(step);
  if (looks_up) count(step, choices, std::chrono::duration<double>(Clock::now() - begin).count());
  tell_prompts(step, scored, sink);
  std::ranges::sort(choices, {}, &Choice::sequence);
  for (const Choice& choice : choices) {
    try {
      pass_on(choice, sink);
    } catch (const std::bad_alloc&) {  // the step is done, and the others have their tokens
      finish(choice.sequence, engine::Finish::failed, sink, "out of memory");
    }
  }
  if (states_.size() < all) cache_->shrink();
  return true;
}

// The ids of a proposal that a sequence could take, before its last token.
int64_t Generator::most_proposed(int64_t sequence) const {
  const State& state = states_.at(sequence);
  const int64_t most = std::min(state.request->sampling.speculation.tokens, state.left - 1),
                positions = model_.config().learned_positions();
  return positions == 0 ? most : std::min(most, positions - std::ssize(scheduler_->ids(sequence)));
}

// Gives the scheduler ids that may follow, as many as gain. A rehearsal computes the most there can be.
// Returns whether there are sequences with drafts.
bool Generator::propose() {
  const bool rehearses = tensor::Rehearsal::current() != nullptr;
  bool some = false;
  std::vector<std::pair<int64_t, std::vector<int32_t>>> drafts;
  std::vector<Pace::Proposal> proposals;
  for (auto& [sequence, state] : states_) {
    if (!state.draft) continue;
    some = true;
    if (!scheduler_->decodes(sequence)) continue;
    const int64_t most = std::max<int64_t>(0, most_proposed(sequence));
    const std::span<const int32_t> ids = state.draft->next(most);
    drafts.emplace_back(sequence, std::vector(ids.begin(), ids.end()));
    if (rehearses) drafts.back().second.assign(static_cast<size_t>(most), 0);
    proposals.push_back({std::ssize(drafts.back().second), state.draft->right()});
  }
  if (drafts.empty()) return some;
  const int64_t rows = std::min(scheduler_->running(), scheduler_->limits().step_sequences);
  const std::vector<int64_t> worth = pace_.worth(rows, proposals);
  for (size_t i = 0; i < drafts.size(); ++i) {
    const auto& [sequence, ids] = drafts[i];
    const bool whole = rehearses || states_.at(sequence).request->sampling.speculation.always;
    const int64_t count = whole ? std::ssize(ids) : worth[i];
    scheduler_->propose(sequence, std::span(ids).first(static_cast<size_t>(count)));
  }
  return some;
}

// Records the time of a step without prompts, and how many proposed ids were right. The step is done, and its
// tokens are not passed on yet: nothing may fail.
void Generator::count(const Scheduler::Step& step, const std::vector<Choice>& choices,
                      double seconds) noexcept {
  int64_t rows = 0;
  bool has_prompt = false;
  for (const Scheduler::Work& work : step.work) {
    rows += work.count;
    proposed_ += work.tentative;
    has_prompt |= work.count - work.tentative > 1;
  }
  if (!has_prompt) pace_.record(rows, seconds);
  for (const Choice& choice : choices)
    if (choice.rows > 1 && !choice.tokens.empty())
      accepted_ += std::min(std::ssize(choice.tokens), choice.rows) - 1;
}

// Chooses a step whose blocks have memory. If no more memory can be allocated, sequences reuse the blocks
// that exist: first contents that nobody uses, then the blocks of paused sequences, then those of the
// youngest. A sequence that needs more than all of them fails. If there is no block at all, the step throws
// and loses nothing.
Scheduler::Step Generator::next_step(engine::GenerationSink& sink) {
  BlockPool& pool = *cache_->pool;
  for (bool tried = false;;) {
    Scheduler::Step step = scheduler_->next();
    if (step.empty() && cannot_go_on(scheduler_->first_waiting())) {
      if (tried) {
        const int64_t sequence = scheduler_->first_waiting();
        finish(sequence, engine::Finish::failed, sink, what_is_missing(sequence));
        return {};
      }
      tried = true;
      pool.lift();
      continue;
    }
    try {
      allocate(step);
      return step;
    } catch (const Error& error) {
      if (error.status() != Status::out_of_memory || pool.restricted()) throw;
      cache_->restrict_to_memory();
      scheduler_->drop_missing();
      tried = true;
      if (pool.most() > 0) continue;
      pool.lift();
      throw;
    }
  }
}

void Generator::allocate(const Scheduler::Step& step) {
  for (const Scheduler::Work& work : step.work) {
    const auto before = static_cast<size_t>(work.first / kernels::kCacheRows);
    for (const int32_t id : scheduler_->blocks(work.sequence).subspan(before)) block(id);
  }
}

// Whether a sequence needs more blocks than all that have memory, and there is none for more.
bool Generator::cannot_go_on(int64_t sequence) const {
  const BlockPool& pool = *cache_->pool;
  return sequence >= 0 && pool.restricted() &&
         Scheduler::blocks_of(std::ssize(scheduler_->ids(sequence))) > pool.most();
}

std::string Generator::what_is_missing(int64_t sequence) const {
  const int64_t tokens = std::ssize(scheduler_->ids(sequence)), most = cache_->pool->most();
  return fmt::format(
      "{} tokens: there is no memory for more keys and values; those of that many tokens take {} bytes, in "
      "blocks of {} for {} tokens each, and {} bytes could be had: free memory or allow more, or let a "
      "prompt "
      "and its completion have at most {} tokens",
      tokens, Scheduler::blocks_of(tokens) * block_bytes(), block_bytes(), kernels::kCacheRows,
      most * block_bytes(), most * kernels::kCacheRows + 1);
}

const at::Tensor& Generator::block(int32_t id) {
  const tensor::Stage stage(kKeysStage);
  return cache_->memory.block(id);
}

}  // namespace trl::generate
