// Sequences that go on under other weights: their keys stay, and nobody shares those that come then.
#include <gtest/gtest.h>

#include <numeric>

#include "generate/scheduler.h"
#include "kernels/kinds.h"

namespace trl::generate {
namespace {

using kernels::kCacheRows;

constexpr uint64_t kOld = 1, kNew = 2;

std::vector<int32_t> prompt_of(int64_t count) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  std::iota(ids.begin(), ids.end(), 0);
  return ids;
}

Scheduler::Step computed(Scheduler& scheduler) {
  const Scheduler::Step step = scheduler.next();
  scheduler.done(step);
  for (const Scheduler::Work& work : step.work)
    for (const int64_t sequence : work.ready) scheduler.append(sequence, 7);
  return step;
}

// The first position that a new sequence of this prompt computes.
int64_t first_of(Scheduler& scheduler, const std::vector<int32_t>& ids, uint64_t apart) {
  const int64_t sequence = scheduler.add(ids, 1, apart);
  int64_t first = -1;
  for (const Scheduler::Work& work : computed(scheduler).work)
    if (work.sequence == sequence) first = work.first;
  scheduler.end(sequence);
  return first;
}

TEST(MovedSequence, GoesOnAndIsSharedNoMore) {
  Scheduler scheduler({.blocks = 40});
  const std::vector<int32_t> ids = prompt_of(2 * kCacheRows + 2);
  scheduler.add(ids, 1, kOld);
  computed(scheduler);
  scheduler.move(0, kNew);
  const Scheduler::Step next = computed(scheduler);
  ASSERT_EQ(next.work.size(), 1u);
  EXPECT_EQ(next.work[0].count, 1);
  EXPECT_EQ(first_of(scheduler, ids, kNew), 0);
  EXPECT_EQ(first_of(scheduler, ids, kOld), 2 * kCacheRows);  // the blocks from before the move
}

TEST(MovedSequence, IsComputedAgainWithTheNewOnes) {
  Scheduler scheduler({.blocks = 40});
  scheduler.add(prompt_of(kCacheRows + 2), 1, kOld);
  computed(scheduler);
  scheduler.move(0, kNew);
  scheduler.drop_keys(kOld);
  EXPECT_EQ(computed(scheduler).work.at(0).count, 1);
  scheduler.drop_keys(kNew);
  const Scheduler::Step again = computed(scheduler);
  EXPECT_EQ(again.work.at(0).first, 0);
  EXPECT_EQ(again.work.at(0).count, kCacheRows + 4);
  EXPECT_EQ(first_of(scheduler, prompt_of(kCacheRows + 2), kNew), kCacheRows);  // it shares again
}

TEST(MovedSequence, AGroupMovesBetweenTheChunksOfItsPrompt) {
  Scheduler scheduler({.blocks = 40, .step_tokens = kCacheRows});
  const std::vector<int32_t> ids = prompt_of(2 * kCacheRows);
  scheduler.add(ids, 3, kOld);
  EXPECT_EQ(computed(scheduler).work.at(0).count, kCacheRows);
  for (int64_t sequence = 0; sequence < 3; ++sequence) scheduler.move(sequence, kNew);
  EXPECT_EQ(computed(scheduler).work.at(0).ready.size(), 3u);
  EXPECT_EQ(computed(scheduler).work.size(), 3u);
  for (int64_t sequence = 0; sequence < 3; ++sequence) scheduler.end(sequence);
  EXPECT_EQ(scheduler.pool().used(), 0);
  EXPECT_EQ(first_of(scheduler, ids, kNew), 0);
}

TEST(MovedSequence, OneThatWaitsSharesUnderTheNewNumber) {
  Scheduler scheduler({.blocks = 40});
  const std::vector<int32_t> ids = prompt_of(kCacheRows + 2);
  EXPECT_EQ(first_of(scheduler, ids, kNew), 0);
  const int64_t sequence = scheduler.add(ids, 1, kOld);
  scheduler.move(sequence, kNew);
  EXPECT_EQ(computed(scheduler).work.at(0).first, kCacheRows);
}

}  // namespace
}  // namespace trl::generate
