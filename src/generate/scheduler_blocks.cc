// Blocks of sequences: found, taken, and given back.
#include <algorithm>
#include <new>

#include "generate/scheduler.h"
#include "kernels/kinds.h"

namespace trl::generate {

using kernels::kCacheRows;

namespace {

bool holds(const std::vector<int32_t>& blocks, int32_t block) {
  return std::ranges::find(blocks, block) != blocks.end();
}

}  // namespace

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

}  // namespace trl::generate
