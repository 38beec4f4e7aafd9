#include "generate/scheduler.h"

#include <algorithm>
#include <utility>

#include "kernels/kinds.h"

namespace trl::generate {

using kernels::kCacheRows;

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

void Scheduler::wait(int64_t number) {
  release(at(number));
  waiting_.insert(running_.extract(number));
}

void Scheduler::preempt(int64_t number) {
  ++preempted_;
  wait(number);
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

int64_t Scheduler::reach(int64_t number, int64_t position) const {
  const Sequence& sequence = at(number);
  if (limits_.recompute_longer) return std::ssize(sequence.ids);
  for (const Given& given : sequence.given)
    if (position >= given.begin && position < given.end) return given.end;
  return position + 1;
}

}  // namespace trl::generate
