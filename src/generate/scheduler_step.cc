// Chooses the rows of a step.
#include <algorithm>
#include <utility>

#include "generate/scheduler.h"
#include "kernels/kinds.h"

namespace trl::generate {

using kernels::kCacheRows;

Scheduler::Step Scheduler::next() {
  Turn turn{.step = {}, .rows = limits_.step_tokens};
  try {
    choose(turn);
  } catch (...) {  // one that waits keeps no shared block
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

}  // namespace trl::generate
