#include "generate/generator.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/renumber.h"
#include "generate/sampling.h"
#include "kernels/kinds.h"

namespace trl::generate {

namespace {

Limits with_ropes(Limits limits, const model::Model& model) {
  const model::RopeConfig& rope = model.config().rope;
  limits.common_length = rope.common_positions();
  limits.recompute_longer = rope.type == "longrope";
  return limits;
}

// The place of a completion without tokens; null without a constraint.
engine::Constraint::Place start_of(const engine::Sampling& sampling) {
  if (sampling.constraint == nullptr) return nullptr;
  engine::Constraint::Place place = sampling.constraint->start();
  if (place == nullptr) throw std::bad_alloc();
  return place;
}

}  // namespace

CacheKind cache_kind(const model::Model& model, const engine::GeneratorSpec& spec) {
  return {.compute = model.compute(spec.bf16 ? at::kBFloat16 : at::kFloat),
          .int8 = spec.int8_cache,
          .narrow = model::narrow_type(spec.weights),
          .narrow_head = spec.copies_head,
          .path = kernels::path_of(spec.plain)};
}

Generator::Generator(const model::Model& model, const engine::GeneratorSpec& spec,
                     std::shared_ptr<Cache> cache)
    : Generator(model,
                {.step_tokens = spec.step_tokens,
                 .step_sequences = spec.step_sequences,
                 .prefix_cache = spec.prefix_cache},
                std::move(cache), spec.within_positions) {}

Generator::Generator(const model::Model& model, const Limits& limits, std::shared_ptr<Cache> cache,
                     bool within_positions)
    : model_(model), cache_(std::move(cache)), within_positions_(within_positions) {
  const std::lock_guard lock(cache_->in_use);
  scheduler_ = std::make_unique<Scheduler>(with_ropes(limits, model), cache_->pool);
}

void Generator::check_ids(std::span<const int32_t> ids, int64_t before) const {
  const model::ModelConfig& config = model_.config();
  const int64_t vocabulary = config.vocab_size;
  const int64_t positions = within_positions_ ? config.positions() : config.learned_positions();
  const auto strange = [&](int32_t id) { return id < 0 || id >= vocabulary; };
  if (const auto found = std::ranges::find_if(ids, strange); found != ids.end()) {
    fail(Status::invalid_argument, "id {} at place {} of the prompt is not in the vocabulary of {} ids",
         *found, found - ids.begin(), vocabulary);
  }
  const int64_t length = before + std::ssize(ids);
  if (positions > 0 && length > positions) {
    fail(Status::invalid_argument, "the prompt has {} tokens, and the model has {} positions: shorten it",
         length, positions);
  }
  const int64_t wanted = Scheduler::blocks_of(length), limit = scheduler_->pool().limit();
  if (wanted > limit) {
    fail(Status::out_of_memory,
         "the prompt has {} tokens, whose keys and values take {} bytes: kv_cache_memory allows {} bytes",
         length, wanted * block_bytes(), limit * block_bytes());
  }
}

void Generator::check(const Request& request) const {
  check_sampling(request.sampling, model_.config().vocab_size);
  if (request.ids.empty()) fail(Status::invalid_argument, "the prompt is empty; give at least one token");
  if (request.count < 1)
    fail(Status::invalid_argument, "{} completions are asked for; at least 1 is needed", request.count);
  check_ids(request.ids, 0);
}

int64_t Generator::add(Request request) {
  const std::lock_guard lock(cache_->in_use);
  check(request);
  const auto shared = std::make_shared<const Request>(std::move(request));
  const engine::Speculation& speculation = shared->sampling.speculation;
  std::shared_ptr<Lookup> lookup;
  if (speculation.tokens > 0) lookup = std::make_shared<Lookup>(shared->ids, shared->count, speculation);
  const auto told = std::make_shared<Told>();
  std::map<int64_t, State> added;
  for (int64_t i = 0; i < shared->count; ++i) {
    added[i] = {.request = shared,
                .told = told,
                .adapter = shared->adapter,
                .stream = shared->stream + static_cast<uint64_t>(i) * shared->stride,
                .begin = std::ssize(shared->ids),
                .left = shared->sampling.max_new_tokens,
                .place = start_of(shared->sampling)};
    if (lookup != nullptr) added[i].draft.emplace(lookup, i, right_);
  }
  const uint64_t apart = cache_->number_of(shared->adapter);
  int64_t& users = cache_->count_of_users(shared->adapter);
  const int64_t first = scheduler_->add(shared->ids, shared->count, apart, shared->sampling.prompt_best >= 0);
  users += shared->count;
  base::renumber(added, first, states_);
  return first;
}

void Generator::extend(int64_t sequence, std::span<const int32_t> ids, int64_t max_new_tokens, bool counted) {
  const auto found = states_.find(sequence);
  if (found == states_.end() || !found->second.ended) {
    fail(Status::invalid_argument, "completion {} cannot be continued: it {}", sequence,
         found == states_.end() ? "ended without being kept, or never existed" : "has not ended yet");
  }
  if (ids.empty()) fail(Status::invalid_argument, "there are no tokens to continue with; give at least one");
  if (max_new_tokens < 1)
    fail_key("max_new_tokens", "max_new_tokens is {}; expected at least 1", max_new_tokens);
  check_ids(ids, std::ssize(scheduler_->ids(sequence)));
  State& state = found->second;
  engine::Constraint::Place place = start_of(state.request->sampling);
  const std::lock_guard lock(cache_->in_use);
  if (state.draft) state.draft->make_room(std::ssize(ids));
  scheduler_->extend(sequence, ids);
  state.begin = std::ssize(scheduler_->ids(sequence));
  state.left = max_new_tokens;
  state.ended = false;
  state.place = std::move(place);
  if (counted) state.drawn += std::ssize(ids);
  if (state.draft) state.draft->skip(ids);
}

void Generator::end(int64_t sequence) {
  const std::lock_guard lock(cache_->in_use);
  forget(sequence);
  cache_->shrink();
}

void Generator::forget(int64_t sequence) {
  const auto found = states_.find(sequence);
  if (found == states_.end()) return;
  --cache_->count_of_users(found->second.adapter);
  scheduler_->end(sequence);
  states_.erase(found);
}

void Generator::move_to(const model::Adapter& version) {
  const std::lock_guard lock(cache_->in_use);
  cache_->follow_adapters();  // before any sequence has keys of this version
  const uint64_t apart = cache_->number_of(&version);
  int64_t& users = cache_->count_of_users(&version);
  for (auto& [sequence, state] : states_) {
    if (!state.request->follows || state.adapter == &version) continue;
    --cache_->count_of_users(state.adapter);
    ++users;
    state.adapter = &version;
    scheduler_->move(sequence, apart);
  }
}

Generator::~Generator() {
  const std::lock_guard lock(cache_->in_use);
  for (const auto& [sequence, state] : states_) --cache_->count_of_users(state.adapter);
  scheduler_.reset();
  cache_->shrink();
}

void Generator::release_memory() {
  const std::lock_guard lock(cache_->in_use);
  scheduler_->drop_keys({});
  cache_->release();
}

engine::GenerationUse Generator::use() const {
  const std::lock_guard lock(cache_->in_use);
  const BlockPool& pool = *cache_->pool;
  return {.block_bytes = block_bytes(),
          .block_tokens = kernels::kCacheRows,
          .blocks = pool.used(),
          .blocks_limit = pool.limit(),
          .blocks_kept = pool.known(),
          .bytes = cache_->memory.bytes(),
          .waiting = scheduler_->waiting(),
          .running = scheduler_->running(),
          .proposed = proposed_,
          .accepted = accepted_,
          .preempted = scheduler_->preempted()};
}

}  // namespace trl::generate
