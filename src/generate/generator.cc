#include "generate/generator.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <exception>
#include <iterator>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/renumber.h"
#include "generate/choice.h"
#include "generate/sampling.h"
#include "kernels/gemm/gemm.h"
#include "kernels/kinds.h"
#include "tensor/device.h"
#include "tensor/memory/rehearsal.h"
#include "tensor/threads/parallel.h"

namespace trl::generate {

namespace {

using Clock = std::chrono::steady_clock;

// Rows whose logits exist at once; those of a sequence do.
constexpr int64_t kLogitRows = 64;
static_assert(engine::Speculation::kMostTokens < kLogitRows);

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
          .accepted = accepted_};
}

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

// Remembers what a step without prompts took, and what proposals gave. The step is done, and its tokens are
// not passed on yet: nothing may fail.
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

const at::Tensor& Generator::block(int32_t id) {
  const tensor::Stage stage(kKeysStage);
  return cache_->memory.block(id);
}

// Computed are steps with more rows or logits than any before, after the keys have grown by a fiftieth, and
// the last of each sequence. The others choose some token of each sequence.
bool Generator::is_left_out(const model::SequenceRows& rows, const std::vector<Choice>& choices) {
  if (tensor::Rehearsal::current() == nullptr) return false;
  const Rehearsed::Size size{std::ssize(rows.ids), std::ssize(rows.wanted)};
  const int64_t bytes = cache_->memory.bytes();
  const bool known = std::ranges::any_of(rehearsed_.sizes, [&](const Rehearsed::Size& other) {
    return size.rows <= other.rows && size.ready <= other.ready;
  });
  const bool ends =
      std::ranges::any_of(choices, [&](const Choice& one) { return states_.at(one.sequence).left == 1; });
  if (known && !ends && bytes - rehearsed_.key_bytes <= rehearsed_.key_bytes / 50) return true;
  if (!known) rehearsed_.sizes.push_back(size);
  rehearsed_.key_bytes = bytes;
  return false;
}

void Generator::add_rows(const Scheduler::Work& work, model::SequenceRows& rows) {
  const std::span<const int32_t> ids =
      scheduler_->ids(work.sequence).subspan(static_cast<size_t>(work.first));
  rows.ids.insert(rows.ids.end(), ids.begin(), ids.begin() + work.count - work.tentative);
  const auto tentative = scheduler_->tentative(work.sequence).first(static_cast<size_t>(work.tentative));
  rows.ids.insert(rows.ids.end(), tentative.begin(), tentative.end());
  std::vector<at::Tensor> blocks;
  for (const int32_t id : scheduler_->blocks(work.sequence)) blocks.push_back(block(id));
  // Rows whose keys were computed in different calls, if that matters, are runs of their own.
  for (int64_t position = work.first, end = work.first + work.count; position < end;) {
    model::SequenceRows::Run run(end - position, position);
    run.blocks = blocks;
    run.adapter = adapter_of(work);
    if (std::ssize(scheduler_->ids(work.sequence)) > scheduler_->limits().common_length) {
      run.reach = scheduler_->reach(work.sequence, position);
      run.rows = std::min(run.rows, run.reach - position);
    }
    position += run.rows;
    rows.runs.push_back(std::move(run));
  }
}

// Adds the ids of a prompt that follow these positions and have not been told, and wants their rows. The last
// position of a prompt is followed by a choice.
void Generator::add_scored(const Scheduler::Work& work, model::SequenceRows& rows,
                           std::vector<Scored>& scored) const {
  const State& state = states_.at(work.sequence);
  if (state.request->sampling.prompt_best < 0) return;
  const std::vector<int32_t>& ids = state.request->ids;
  const int64_t first_row = std::ssize(rows.ids) - work.count;
  const int64_t end = std::min(work.first + work.count, std::ssize(ids) - 1);
  for (int64_t place = std::max(work.first, state.told->ids - 1); place < end; ++place) {
    scored.push_back({work.sequence,
                      std::ssize(rows.wanted),
                      {.position = place + 1, .id = ids[static_cast<size_t>(place) + 1]}});
    rows.wanted.push_back(first_row + place - work.first);
  }
}

Generator::Results Generator::compute(const std::vector<const Scheduler::Work*>& all) {
  model::SequenceRows rows;
  rows.int8 = cache_->memory.int8();
  Results made;
  for (const Scheduler::Work* work : all) {
    add_rows(*work, rows);
    add_scored(*work, rows, made.scored);
    if (work->ready.empty()) continue;
    const int64_t count = 1 + work->tentative;
    for (const int64_t sequence : work->ready) {
      made.choices.push_back({sequence, std::ssize(rows.wanted), count});
      made.choices.back().tokens.push_back(
          {.id = static_cast<int32_t>(sequence % 2)});  // chosen by a rehearsal
    }
    for (int64_t row = std::ssize(rows.ids) - count; row < std::ssize(rows.ids); ++row)
      rows.wanted.push_back(row);
  }
  if (is_left_out(rows, made.choices)) return made;
  const kernels::IndependentRows independent;
  const model::Output output = model_.extend(rows, cache_->kind.compute, cache_->narrow());
  std::vector<Need> needs;
  for (Choice& choice : made.choices) needs.push_back({choice.row, choice.rows, &choice, nullptr});
  for (Scored& scored : made.scored) needs.push_back({scored.row, 1, nullptr, &scored});
  std::ranges::stable_sort(needs, {}, &Need::row);
  for (size_t done = 0, end; done < needs.size(); done = end) {
    const int64_t row = needs[done].row;
    int64_t count = 0;
    for (end = done; end < needs.size(); ++end) {
      const int64_t with = needs[end].row + needs[end].rows - row;
      if (with > kLogitRows) break;
      count = with;
    }
    const model::Output part{output.hidden.narrow(0, row, count), {}, output.head};
    const tensor::Stage stage(kLogitsStage);
    const at::Tensor logits = tensor::on_host(model_.logits(part, cache_->kind.compute));
    fulfil_all(std::span(needs).subspan(done, end - done), logits);
  }
  return made;
}

// Gives rows of logits, which begin with that of the first need, to those who need them. Memory that is
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

// Told once: a sequence that is computed again, or that continues a prompt after another one has gone, tells
// the rest alone.
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

// Returns whether the sequence goes on.
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

// Calls a function of the sink, which may wait for a thread that destroys another generator of the cache.
template <class Call>
void Generator::unlocked(const Call& call) const {
  cache_->in_use.unlock();
  call();
  cache_->in_use.lock();
}

}  // namespace trl::generate
