#include "generate/scheduler.h"

#include <algorithm>
#include <new>
#include <utility>

#include "kernels/kinds.h"

namespace trl::generate {

using kernels::kCacheRows;

namespace {

bool holds(const std::vector<int32_t>& blocks, int32_t block) {
  return std::ranges::find(blocks, block) != blocks.end();
}

}  // namespace

Scheduler::Scheduler(const Limits& limits, std::shared_ptr<BlockPool> pool)
    : limits_(limits), pool_(std::move(pool)) {
  pool_->join(this);
}

Scheduler::~Scheduler() {
  pool_->leave(this);
  for (auto& [number, sequence] : all_) release(sequence);
}

int64_t Scheduler::blocks_of(int64_t length) { return (length + kCacheRows - 1) / kCacheRows; }

// Full blocks of a prompt are shared; its last one is too, if nothing is written after it.
int64_t Scheduler::sequences_in(int64_t blocks, int64_t prompt, int64_t length, int64_t count) {
  const int64_t computed = std::max(prompt, length - 1);
  const int64_t shared = computed > prompt ? prompt / kCacheRows : blocks_of(prompt);
  const int64_t own = blocks_of(computed) - shared, group = shared + count * own;
  const int64_t left = blocks % group - shared;
  if (own == 0) return blocks / group * count;
  return blocks / group * count + std::max<int64_t>(0, left / own);
}

int64_t Scheduler::add(std::span<const int32_t> ids, int64_t count, uint64_t apart, bool whole) {
  const int64_t first = numbered_;
  const auto group = count > 1 ? std::make_shared<Group>(Group{first, {}}) : nullptr;
  std::map<int64_t, Sequence> added;  // all or, if memory runs out, none
  for (int64_t number = first; number < first + count; ++number) {
    Sequence& sequence = added[number];
    sequence.ids.assign(ids.begin(), ids.end());
    sequence.given = {{0, std::ssize(ids)}};
    sequence.apart = sequence.content = apart;
    sequence.arrival = pool_->arrive();
    sequence.whole = whole;
    sequence.group = group;
    if (number > first) group->followers.insert(number);
  }
  waiting_.insert(first);
  all_.merge(added);
  numbered_ += count;
  return first;
}

Scheduler::Step Scheduler::next() {
  Turn turn{.step = {}, .rows = limits_.step_tokens};
  try {
    choose(turn);
  } catch (...) {  // one that waits keeps nothing of what it shares
    if (waiting_.contains(turn.looked_at)) release(at(turn.looked_at));
    throw;
  }
  return std::move(turn.step);
}

// Sequences go on or begin in the order in which they came. After a sequence had to give its blocks back,
// none begins in the same step.
void Scheduler::choose(Turn& turn) {
  undo_copies();
  for (auto next = running_.begin(); next != running_.end();) {
    const int64_t number = *next;
    admit(number, turn);
    if (turn.rows == 0 || std::ssize(turn.step.work) == limits_.step_sequences) break;
    if (running_.contains(number)) go_on(number, turn);
    next = running_.upper_bound(number);
  }
  admit(INT64_MAX, turn);
  if (!turn.has_chunk) add_tentative(turn);
  if (turn.step.empty() && !idle()) steal();
  turn.step.copies = copies_;
}

// Takes the blocks of others who have not computed since the last call; others come to their turn before.
void Scheduler::steal() {
  if (stuck_at_ == pool_->steps()) pool_->ask_others(this, true);
  stuck_at_ = pool_->steps();
}

// Rows that a sequence may take for which none are kept.
int64_t Scheduler::room(const Turn& turn) const {
  const bool has_place = std::ssize(turn.step.work) + turn.kept_rows < limits_.step_sequences;
  return has_place ? turn.rows - turn.kept_rows : 0;
}

// If this is the first chunk of a step: keeps rows for younger sequences that decode, at most half of those
// that are left.
void Scheduler::keep_rows(int64_t number, Turn& turn) {
  if (rows_left(number) < 2 || std::exchange(turn.has_chunk, true)) return;
  const int64_t places = limits_.step_sequences - std::ssize(turn.step.work) - 1;
  const int64_t most = std::min(turn.rows / 2, places);
  for (auto other = running_.upper_bound(number); other != running_.end() && turn.kept_rows < most; ++other)
    turn.kept_rows += rows_left(*other) == 1;
}

void Scheduler::go_on(int64_t number, Turn& turn) {
  if (rows_left(number) == 1) {
    turn.kept_rows -= turn.kept_rows > 0;
    return give_rows(number, 1, turn);
  }
  keep_rows(number, turn);
  give_rows(number, room(turn), turn);
}

// Gives a sequence that runs rows to compute, at most that many, and blocks for them. Younger ones, of all
// schedulers of the pool, give theirs back for it; without them it gives back its own.
void Scheduler::give_rows(int64_t number, int64_t most, Turn& turn) {
  Sequence& sequence = at(number);
  const int64_t rows = std::min(most, rows_left(number));
  if (rows == 0) return;
  while (!reserve(sequence, sequence.computed + rows)) {
    if (take_back()) continue;
    turn.closed = true;
    if (!pool_->take_from_younger(sequence.arrival)) return preempt(number);
  }
  Work& work = turn.step.work.emplace_back(number, sequence.computed, rows);
  turn.rows -= rows;
  if (rows < rows_left(number)) return;
  work.ready = {number};
  if (sequence.group == nullptr) return;
  const std::set<int64_t>& followers = sequence.group->followers;
  work.ready.insert(work.ready.end(), followers.begin(), followers.end());
}

// Lets sequences begin that came before this one. Each begins when there are blocks for all of its ids, and
// for those of the older ones that are deferred; if it passes none of these, also blocks that younger ones
// have.
void Scheduler::admit(int64_t before, Turn& turn) {
  while (!turn.closed && room(turn) > 0 && running() + turn.deferred < limits_.step_sequences) {
    const auto next = waiting_.upper_bound(turn.looked_at);
    if (next == waiting_.end() || *next >= before) return;
    const int64_t number = turn.looked_at = *next;
    Sequence& sequence = at(number);
    const int64_t blocks = blocks_of(std::ssize(sequence.ids));
    if (is_deferred(sequence)) {
      ++turn.deferred;
      turn.kept_blocks += blocks - sequence.awaited;
      continue;
    }
    const int64_t wanted = blocks - std::ssize(sequence.blocks) + turn.kept_blocks;
    while (wanted > pool_->left() && take_back()) {
    }
    turn.closed = wanted > pool_->left();
    if (turn.closed && (turn.deferred > 0 || !pool_->make_room(wanted, sequence.arrival)))
      return release(sequence);
    running_.insert(waiting_.extract(next));
    keep_rows(number, turn);
    give_rows(number, room(turn), turn);
  }
}

// Gives the rows that are left to tentative ids, in equal shares.
void Scheduler::add_tentative(Turn& turn) {
  const auto has_some = [&](const Work& work) { return !at(work.sequence).tentative.empty(); };
  int64_t others = std::ranges::count_if(turn.step.work, has_some);
  for (Work& work : turn.step.work) {
    if (!has_some(work)) continue;
    Sequence& sequence = at(work.sequence);
    int64_t rows = std::min(std::ssize(sequence.tentative), turn.rows / others--);
    if (rows > 0 && !reserve(sequence, sequence.computed + 1 + rows))
      rows = std::min(rows, std::ssize(sequence.blocks) * kCacheRows - sequence.computed - 1);
    work.tentative = rows;
    work.count += rows;
    turn.rows -= rows;
  }
}

// Whether a sequence does not begin because one that runs computes its next whole block. If not, it shares
// the blocks that are known.
bool Scheduler::is_deferred(Sequence& sequence) {
  const auto is_computing = [&](int64_t number) {
    return running_.contains(number) && shares(at(number)) && at(number).known < sequence.awaited;
  };
  if (sequence.awaits >= 0 && is_computing(sequence.awaits)) return true;
  find_prefix(sequence);
  find_computing(sequence);
  if (sequence.awaits < 0) return false;
  release(sequence);
  return true;
}

void Scheduler::find_computing(Sequence& sequence) {
  sequence.awaits = -1;
  if (!begins_with_others(sequence)) return;
  for (const int64_t number : running_) {
    const Sequence& other = at(number);
    if (other.known > sequence.known || other.apart != sequence.apart || !shares(other)) continue;
    const int64_t most =
        std::min((std::ssize(sequence.ids) - 1) / kCacheRows, std::ssize(other.ids) / kCacheRows);
    if (most <= sequence.known) continue;
    const auto alike = std::ranges::mismatch(sequence.ids, other.ids).in1 - sequence.ids.begin();
    sequence.awaited = std::min<int64_t>(most, alike / kCacheRows);
    if (sequence.awaited <= sequence.known) continue;
    sequence.awaits = number;
    return;
  }
}

// Gives the sequence blocks of its own for the positions from `computed` up to `end`. A block that others use
// is copied if it holds anything of the sequence. false: blocks are missing; those that it got remain.
bool Scheduler::reserve(Sequence& sequence, int64_t end) {
  sequence.blocks.reserve(static_cast<size_t>(blocks_of(end)));
  for (int64_t i = sequence.computed / kCacheRows; i < blocks_of(end); ++i) {
    const bool held = i < std::ssize(sequence.blocks);
    if (held && pool_->users(sequence.blocks[static_cast<size_t>(i)]) == 1) continue;
    if (held) copies_.reserve(copies_.size() + 1);
    const std::optional<int32_t> own = pool_->take();
    if (!own) return false;
    if (!held) {
      sequence.blocks.push_back(*own);
      continue;
    }
    int32_t& block = sequence.blocks[static_cast<size_t>(i)];
    copies_.push_back({block, *own});
    pool_->drop(block);
    block = *own;
  }
  return true;
}

// Takes the blocks of a paused sequence, if one has any, its own ones first.
bool Scheduler::take_back() { return give_paused() || pool_->ask_others(this, false); }

bool Scheduler::give_youngest() {
  if (running_.empty()) return false;
  preempt(*running_.rbegin());
  return true;
}

std::vector<int32_t> Scheduler::blocks_after(int64_t arrival) const {
  std::vector<int32_t> all;
  for (auto number = running_.rbegin(); number != running_.rend() && at(*number).arrival > arrival; ++number)
    all.insert(all.end(), at(*number).blocks.begin(), at(*number).blocks.end());
  return all;
}

bool Scheduler::give_paused() {
  while (!paused_.empty()) {
    Sequence& oldest = at(*paused_.begin());
    paused_.erase(paused_.begin());
    const bool has_blocks = !oldest.blocks.empty();
    release(oldest);
    if (has_blocks) return true;
  }
  return false;
}

void Scheduler::wait(int64_t number) {
  release(at(number));
  waiting_.insert(running_.extract(number));
}

void Scheduler::preempt(int64_t number) {
  ++preempted_;
  wait(number);
}

// After a step that was not done, others may have written what it copied: the rows are computed again.
void Scheduler::undo_copies() {
  for (const Copy& copy : copies_) {
    for (const int64_t number : running_)
      if (Sequence& sequence = at(number); holds(sequence.blocks, copy.to))
        sequence.computed -= sequence.computed % kCacheRows;
  }
  copies_.clear();
}

// Blocks without memory hold nothing; only a copied one has rows before them, which are computed again. A
// sequence without blocks waits.
void Scheduler::drop_missing() {
  undo_copies();
  for (auto& [number, sequence] : all_) {
    std::vector<int32_t>& blocks = sequence.blocks;
    const auto has_memory = [&](int32_t block) { return pool_->may_have(block); };
    const auto first = std::ranges::find_if_not(blocks, has_memory) - blocks.begin();
    for (; std::ssize(blocks) > first; blocks.pop_back()) pool_->drop(blocks.back());
    if (blocks.empty() && running_.contains(number)) preempt(number);
  }
}

void Scheduler::release(Sequence& sequence) {
  std::erase_if(copies_, [&](const Copy& copy) { return holds(sequence.blocks, copy.to); });
  // The last block first: the beginning of a prefix is of use without its end.
  for (; !sequence.blocks.empty(); sequence.blocks.pop_back()) pool_->drop(sequence.blocks.back());
  sequence.tentative.clear();
  sequence.computed = sequence.known = sequence.checked = 0;
  sequence.content = sequence.apart;
  sequence.mixed = false;
}

Content Scheduler::content_of(const Sequence& sequence) const {
  const auto begin = sequence.ids.begin() + sequence.known * kCacheRows;
  return {sequence.content, {begin, begin + kCacheRows}};
}

// At least the last id is computed, since something follows it.
void Scheduler::find_prefix(Sequence& sequence) {
  sequence.blocks.reserve(static_cast<size_t>(blocks_of(std::ssize(sequence.ids))));
  while (begins_with_others(sequence) && sequence.computed + kCacheRows < std::ssize(sequence.ids)) {
    const std::optional<BlockPool::Found> found = pool_->share(content_of(sequence));
    if (!found) return;
    sequence.blocks.push_back(found->block);
    sequence.content = found->content;
    sequence.computed += kCacheRows;
    ++sequence.known;
  }
}

void Scheduler::learn(Sequence& sequence) {
  for (; shares(sequence) && (sequence.known + 1) * kCacheRows <= sequence.computed; ++sequence.known) {
    const int32_t block = sequence.blocks[static_cast<size_t>(sequence.known)];
    try {
      sequence.content = pool_->hold(block, content_of(sequence), sequence.apart);
    } catch (const std::bad_alloc&) {
      return;  // it stays unknown until the next step
    }
  }
}

// Allocates before it changes anything, so that after an error the step is computed again.
void Scheduler::done(const Step& step) {
  for (const Work& work : step.work) {
    const size_t blocks = at(work.sequence).blocks.size();
    for (const int64_t number : work.ready) at(number).blocks.reserve(blocks);
  }
  copies_.clear();
  pool_->count_step();
  for (const Work& work : step.work) {
    Sequence& sequence = at(work.sequence);
    sequence.checked = work.tentative;
    sequence.computed = work.first + work.count - work.tentative;
    learn(sequence);
    if (!work.ready.empty()) follow(sequence);
  }
}

void Scheduler::follow(Sequence& leader) {
  const std::shared_ptr<Group> group = std::exchange(leader.group, nullptr);
  if (group == nullptr) return;
  for (const int64_t number : group->followers) {
    Sequence& sequence = at(number);
    sequence.group = nullptr;
    sequence.blocks = leader.blocks;
    for (const int32_t block : sequence.blocks) pool_->share(block);
    sequence.computed = leader.computed;
    sequence.known = leader.known;
    sequence.content = leader.content;
    sequence.mixed = leader.mixed;
  }
  running_.merge(group->followers);
}

bool Scheduler::decodes(int64_t number) const {
  return running_.contains(number) && rows_left(number) == 1 && at(number).group == nullptr;
}

// Their rows do not depend on the length of the sequence as long as that is common.
void Scheduler::propose(int64_t number, std::span<const int32_t> ids) {
  Sequence& sequence = at(number);
  const int64_t most = std::max<int64_t>(0, limits_.common_length - std::ssize(sequence.ids));
  const auto count = static_cast<size_t>(std::min(most, std::ssize(ids)));
  sequence.tentative.assign(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count));
}

void Scheduler::append(int64_t number, int32_t id) {
  Sequence& sequence = at(number);
  sequence.ids.push_back(id);
  if (sequence.checked > 0 && sequence.tentative.front() == id) {
    sequence.tentative.erase(sequence.tentative.begin());
    --sequence.checked;
    ++sequence.computed;
    learn(sequence);
  } else {
    drop_tentative(sequence);
  }
  lengthened(number, std::ssize(sequence.ids) - 1);
}

// Gives whole blocks back. Rows in the block that stays are overwritten later.
void Scheduler::drop_tentative(Sequence& sequence) {
  sequence.tentative.clear();
  if (std::exchange(sequence.checked, 0) == 0) return;
  std::vector<int32_t>& blocks = sequence.blocks;
  for (; std::ssize(blocks) > blocks_of(sequence.computed); blocks.pop_back()) pool_->drop(blocks.back());
}

void Scheduler::pause(int64_t number) {
  drop_tentative(at(number));
  auto node = running_.extract(number);
  if (node.empty()) node = waiting_.extract(number);  // its last token made it too long for its keys
  paused_.insert(std::move(node));
}

void Scheduler::extend(int64_t number, std::span<const int32_t> ids) {
  Sequence& sequence = at(number);
  const int64_t before = std::ssize(sequence.ids);
  sequence.ids.reserve(sequence.ids.size() + ids.size());
  sequence.given.reserve(sequence.given.size() + 1);
  running_.insert(number);  // nothing that follows can fail
  sequence.ids.insert(sequence.ids.end(), ids.begin(), ids.end());
  sequence.given.push_back({before, std::ssize(sequence.ids)});
  paused_.erase(number);
  lengthened(number, before);
  if (sequence.blocks.empty()) wait(number);
}

void Scheduler::lengthened(int64_t number, int64_t before) {
  const int64_t length = std::ssize(at(number).ids), limit = limits_.common_length;
  if (limits_.recompute_longer && before <= limit && length > limit) wait(number);
}

void Scheduler::end(int64_t number) {
  Sequence& sequence = at(number);
  release(sequence);
  for (std::set<int64_t>* const set : {&waiting_, &running_, &paused_}) set->erase(number);
  if (Group* const group = sequence.group.get(); group != nullptr) {
    if (group->leader != number) {
      group->followers.erase(number);
    } else if (!group->followers.empty()) {
      auto next = group->followers.extract(group->followers.begin());
      group->leader = next.value();
      waiting_.insert(std::move(next));
    }
  }
  all_.erase(number);
}

void Scheduler::move(int64_t number, uint64_t apart) {
  Sequence& sequence = at(number);
  sequence.apart = apart;
  sequence.mixed = !sequence.blocks.empty();
  if (!sequence.mixed) sequence.content = apart;
}

void Scheduler::drop_keys(std::optional<uint64_t> apart) {
  const auto is_concerned = [&](int64_t number) { return !apart || at(number).apart == *apart; };
  for (auto next = running_.begin(); next != running_.end();)
    if (const int64_t number = *next++; is_concerned(number)) wait(number);
  std::erase_if(paused_, [&](int64_t number) {
    if (!is_concerned(number)) return false;
    release(at(number));
    return true;
  });
}

int64_t Scheduler::reach(int64_t number, int64_t position) const {
  const Sequence& sequence = at(number);
  if (limits_.recompute_longer) return std::ssize(sequence.ids);
  for (const Given& given : sequence.given)
    if (position >= given.begin && position < given.end) return given.end;
  return position + 1;
}

}  // namespace trl::generate
