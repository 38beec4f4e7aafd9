// The scheduler without a model: what each rule gives, and random histories.
#include "generate/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <new>
#include <string>
#include <utility>

#include "generate/scheduler_history.h"
#include "generate/scheduler_steps.h"
#include "support/no_memory.h"

namespace trl::generate {
namespace {

using kernels::kCacheRows;
using test::counted_ids;
using test::step;

// The position at which a prompt begins to be computed; it ends again.
int64_t begins_at(Scheduler& scheduler, std::vector<int32_t> ids, uint64_t apart = 0) {
  const int64_t sequence = scheduler.add(std::move(ids), 1, apart);
  const Scheduler::Step first = step(scheduler);
  scheduler.end(sequence);
  EXPECT_EQ(first.work.size(), 1u);
  EXPECT_EQ(scheduler.pool().used(), 0);
  return first.work.at(0).first;
}

TEST(Scheduler, AGroupComputesItsPromptOnce) {
  Scheduler scheduler({.blocks = 20});
  scheduler.add(counted_ids(2 * kCacheRows + 2), 8, 0);
  const Scheduler::Step prompt = step(scheduler);
  ASSERT_EQ(prompt.work.size(), 1u);
  EXPECT_EQ(prompt.work[0].count, 2 * kCacheRows + 2);
  EXPECT_EQ(prompt.work[0].ready, (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(scheduler.pool().used(), 3);
  const Scheduler::Step tokens = step(scheduler);
  EXPECT_EQ(tokens.work.size(), 8u);
  EXPECT_EQ(tokens.copies.size(), 7u);  // the last one has the block for itself
  EXPECT_EQ(scheduler.pool().used(), 2 + 8);
  EXPECT_TRUE(step(scheduler).copies.empty());
}

// Returns the seconds of this process's time in which each of that many completions of a prompt is ended.
double seconds_to_end(int64_t count) {
  Scheduler scheduler({.blocks = 100});
  const int64_t first = scheduler.add(counted_ids(10), count, 0);
  const std::clock_t begin = std::clock();
  for (int64_t i = 0; i < count; ++i) scheduler.end(first + i);
  EXPECT_TRUE(scheduler.idle());
  return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

// Ten times as many take about ten times as long, and not a hundred times.
TEST(Scheduler, AGroupEndsInTimeByItsSize) {
  const double few = std::max(1e-3, seconds_to_end(2000));
  EXPECT_LT(seconds_to_end(20000), 40 * few);
}

TEST(Scheduler, TheNextOfAGroupTakesThePlaceOfOneThatEnds) {
  Scheduler scheduler({.blocks = 20});
  scheduler.add(counted_ids(kCacheRows + 2), 5, 0);
  for (const int64_t gone : {3, 0, 1}) scheduler.end(gone);
  EXPECT_EQ(scheduler.waiting(), 1);
  const Scheduler::Step prompt = step(scheduler);
  ASSERT_EQ(prompt.work.size(), 1u);
  EXPECT_EQ(prompt.work[0].sequence, 2);
  EXPECT_EQ(prompt.work[0].ready, (std::vector<int64_t>{2, 4}));
  for (const int64_t left : {2, 4}) scheduler.end(left);
  EXPECT_TRUE(scheduler.idle());
  EXPECT_EQ(scheduler.pool().used(), 0);
}

// Returns whether completions of one prompt run together to their ends, in so many blocks.
bool run_together(int64_t blocks, int64_t prompt, int64_t more, int64_t count) {
  Scheduler scheduler({.blocks = blocks, .prefix_cache = false});
  scheduler.add(counted_ids(prompt), count, 0);
  for (int64_t i = 0; i < more; ++i)
    if (step(scheduler).empty() || scheduler.running() < count) return false;
  return true;
}

TEST(Scheduler, SaysHowManySequencesFit) {
  for (const int64_t prompt : {1, 63, 64, 65, 100, 128}) {
    for (const int64_t more : {1, 2, 30, 65, 150}) {
      for (const int64_t count : {1, 2, 5}) {
        for (const int64_t blocks : {1, 2, 3, 7, 12, 20}) {
          const int64_t fit = Scheduler::sequences_in(blocks, prompt, prompt + more, count);
          EXPECT_EQ(run_together(blocks, prompt, more, count), fit >= count)
              << count << " completions of " << more << " tokens after " << prompt << ", in " << blocks
              << " blocks: " << fit << " fit";
        }
      }
    }
  }
  EXPECT_EQ(Scheduler::sequences_in(20, 100, 101, 1), 10);
  EXPECT_EQ(Scheduler::sequences_in(21, 128, 200, 4), 2 * 4);  // 2 + 4 * 2 blocks each; no third prompt
  EXPECT_EQ(Scheduler::sequences_in(24, 128, 200, 4), 2 * 4 + 1);
}

TEST(Scheduler, AStepHasNoMoreSequencesThanItsLimit) {
  Scheduler scheduler({.blocks = 20, .step_sequences = 3});
  scheduler.add(counted_ids(5), 8, 0);
  step(scheduler);
  for (int i = 0; i < 3; ++i) {
    const Scheduler::Step next = step(scheduler);
    ASSERT_EQ(next.work.size(), 3u);
    EXPECT_EQ(next.work[2].sequence, 2);
  }
  scheduler.end(1);
  EXPECT_EQ(step(scheduler).work.at(2).sequence, 3);
}

// One that was paused goes on with many tokens, beside a group that decodes.
void extend_beside(Scheduler& scheduler, int64_t count, int64_t more) {
  scheduler.add(counted_ids(3), 1, 0);
  step(scheduler);
  scheduler.pause(0);
  scheduler.add(counted_ids(5, 100), count, 0);
  step(scheduler);
  scheduler.extend(0, counted_ids(more, 200));
}

TEST(Scheduler, SequencesThatDecodeGoOnBesideAnOlderChunk) {
  Scheduler scheduler({.blocks = 100, .step_tokens = 64});
  extend_beside(scheduler, 5, 1000);
  int64_t rows = 0, steps = 0;
  for (; rows < 1001; ++steps) {
    const Scheduler::Step next = step(scheduler);
    ASSERT_EQ(next.work.size(), 6u);
    EXPECT_EQ(next.work[0].sequence, 0);
    rows += next.work[0].count;
    for (size_t i = 1; i < 6; ++i) EXPECT_EQ(next.work[i].ready, std::vector{static_cast<int64_t>(i)});
  }
  EXPECT_EQ(rows, 1001);
  EXPECT_EQ(steps, 17);  // of 59 rows each
}

TEST(Scheduler, SequencesThatDecodeLeaveAnOlderChunkHalfOfTheStep) {
  Scheduler scheduler({.blocks = 100, .step_tokens = 8});
  extend_beside(scheduler, 20, 40);
  for (int steps = 0; steps < 10; ++steps) {
    const Scheduler::Step next = step(scheduler);
    ASSERT_EQ(next.work.size(), 5u);
    EXPECT_EQ(next.work[0].count, 4);
    EXPECT_EQ(next.work[4].sequence, 4);
  }
  Scheduler few({.blocks = 100, .step_sequences = 3});
  extend_beside(few, 20, 40);
  const Scheduler::Step next = step(few);
  ASSERT_EQ(next.work.size(), 3u);
  EXPECT_EQ(next.work[0].count, 41);
  EXPECT_EQ(next.work[2].sequence, 2);
}

TEST(Scheduler, AQueueOfAnotherDoesNotStarveTheOldestThatWaits) {
  const auto pool = std::make_shared<BlockPool>(4);
  Scheduler queue({.prefix_cache = false}, pool), other({.prefix_cache = false}, pool);
  for (int32_t i = 0; i < 4; ++i) queue.add(counted_ids(10, 100 * i), 1, 0);
  step(queue);
  other.add(counted_ids(kCacheRows + 1), 1, 0);
  for (int32_t i = 4; i < 40; ++i) queue.add(counted_ids(10, 100 * i), 1, 0);
  int64_t turns = 0;
  for (; step(other).empty(); ++turns) {
    ASSERT_LT(turns, 5);
    step(queue);
    queue.end(turns);
  }
  EXPECT_EQ(turns, 2);
  EXPECT_TRUE(queue.blocks(4).empty());  // it came later, and had begun
  EXPECT_EQ(queue.first_waiting(), 4);
  EXPECT_EQ(step(queue).work.size(), 2u);
}

TEST(Scheduler, TheYoungestOfAllSchedulersGivesItsBlocksBack) {
  for (const bool grows_first : {true, false}) {
    const auto pool = std::make_shared<BlockPool>(2);
    Scheduler grows({.prefix_cache = false}, pool), stays({.prefix_cache = false}, pool);
    if (grows_first) grows.add(counted_ids(kCacheRows), 1, 0);
    stays.add(counted_ids(10), 1, 0);
    if (!grows_first) grows.add(counted_ids(kCacheRows), 1, 0);
    step(grows);
    step(stays);
    EXPECT_EQ(step(grows).empty(), !grows_first);  // it needs a second block
    EXPECT_EQ(grows.blocks(0).size(), grows_first ? 2u : 0u);
    EXPECT_EQ(step(stays).empty(), grows_first);
    EXPECT_EQ(stays.blocks(0).size(), grows_first ? 0u : 1u);
    EXPECT_EQ(grows.preempted(), grows_first ? 0 : 1);
    EXPECT_EQ(stays.preempted(), grows_first ? 1 : 0);
  }
}

TEST(Scheduler, KeysOfOneKindAreDroppedAlone) {
  const auto pool = std::make_shared<BlockPool>(20);
  Scheduler scheduler({}, pool);
  const std::vector<int32_t> ids = counted_ids(2 * kCacheRows + 1);
  for (const uint64_t apart : {1, 2}) scheduler.add(ids, 1, apart);
  step(scheduler);
  pool->recompute(1);
  EXPECT_TRUE(scheduler.blocks(0).empty());
  EXPECT_EQ(scheduler.blocks(1).size(), 3u);
  for (const int64_t sequence : {0, 1}) scheduler.end(sequence);
  EXPECT_EQ(pool->known(), 2);
  EXPECT_EQ(begins_at(scheduler, ids, 2), 2 * kCacheRows);
  EXPECT_EQ(begins_at(scheduler, ids, 1), 0);
  EXPECT_EQ(scheduler.preempted(), 0);  // blocks were not missing
}

TEST(Scheduler, FindsPromptsThatBeginAlike) {
  Scheduler scheduler({.blocks = 20});
  const std::vector<int32_t> ids = counted_ids(3 * kCacheRows + 5);
  EXPECT_EQ(begins_at(scheduler, ids), 0);
  EXPECT_EQ(begins_at(scheduler, ids), 3 * kCacheRows);
  EXPECT_EQ(begins_at(scheduler, counted_ids(3 * kCacheRows)), 2 * kCacheRows);  // the last id is computed
  EXPECT_EQ(begins_at(scheduler, ids, 1), 0);                                    // with other adapters
  std::vector<int32_t> other = ids;
  other[100] = -1;
  EXPECT_EQ(begins_at(scheduler, other), kCacheRows);
  scheduler.recompute();
  EXPECT_EQ(begins_at(scheduler, ids), 0);
}

constexpr int64_t kSystem = 4 * kCacheRows, kOwn = 10;

// A system prompt of some blocks, and ids that no other one has.
std::vector<int32_t> with_system_prompt(int32_t number) {
  std::vector<int32_t> ids = counted_ids(kSystem);
  const std::vector<int32_t> own = counted_ids(kOwn, 1000 * (number + 1));
  ids.insert(ids.end(), own.begin(), own.end());
  return ids;
}

void add_with_system_prompt(Scheduler& scheduler, int32_t count) {
  for (int32_t i = 0; i < count; ++i) scheduler.add(with_system_prompt(i), 1, 0);
}

// Computes steps until each of so many sequences has a token. Returns the rows that were computed up to the
// ends of prompts.
int64_t prompt_rows(Scheduler& scheduler, int64_t count) {
  int64_t rows = 0;
  for (int64_t begun = 0, steps = 0; begun < count && steps < 100; ++steps) {
    for (const Scheduler::Work& work : step(scheduler).work) {
      if (work.first >= kSystem + kOwn) continue;
      rows += work.count;
      begun += std::ssize(work.ready);
    }
  }
  return rows;
}

TEST(Scheduler, PromptsThatBeginTogetherComputeWhatTheyShareOnce) {
  for (const int64_t step_tokens : {1000, 100, 64}) {
    SCOPED_TRACE(step_tokens);
    Scheduler scheduler({.blocks = 100, .step_tokens = step_tokens});
    add_with_system_prompt(scheduler, 8);
    EXPECT_EQ(prompt_rows(scheduler, 8), kSystem + 8 * kOwn);
    EXPECT_EQ(scheduler.pool().used(), 4 + 8);
  }
  Scheduler whole({.blocks = 100});
  add_with_system_prompt(whole, 8);
  EXPECT_EQ(step(whole).work.size(), 1u);
  const Scheduler::Step second = step(whole);  // no later than that
  ASSERT_EQ(second.work.size(), 8u);
  EXPECT_EQ(second.work[7].first, kSystem);
  EXPECT_EQ(second.work[7].ready, std::vector<int64_t>{7});
}

TEST(Scheduler, WithoutTheCacheOfPrefixesEachPromptIsComputed) {
  Scheduler scheduler({.blocks = 100, .step_tokens = 10000, .prefix_cache = false});
  add_with_system_prompt(scheduler, 8);
  EXPECT_EQ(step(scheduler).work.size(), 8u);
  EXPECT_EQ(scheduler.pool().used(), 8 * 5);
}

TEST(Scheduler, IfTheOneThatComputesEndsTheNextGoesOn) {
  Scheduler scheduler({.blocks = 100, .step_tokens = 150});
  add_with_system_prompt(scheduler, 8);
  ASSERT_EQ(step(scheduler).work.size(), 1u);
  scheduler.end(0);
  const Scheduler::Step next = step(scheduler);
  ASSERT_EQ(next.work.size(), 1u);
  EXPECT_EQ(next.work[0].sequence, 1);
  EXPECT_EQ(next.work[0].first, 2 * kCacheRows);
  EXPECT_EQ(prompt_rows(scheduler, 7), kSystem - 2 * kCacheRows - next.work[0].count + 7 * kOwn);
}

// The rows of what they generated are computed besides.
TEST(Scheduler, AGroupWithoutItsKeysComputesItsPromptOnce) {
  Scheduler scheduler({.blocks = 100});
  scheduler.add(with_system_prompt(0), 8, 0);
  step(scheduler);
  step(scheduler);
  scheduler.recompute();
  int64_t rows = 0;
  for (int steps = 0; steps < 2; ++steps)
    for (const Scheduler::Work& work : step(scheduler).work)
      if (work.count > 1) rows += work.count;
  EXPECT_EQ(rows, kSystem + 8 * (kOwn + 2));
  EXPECT_EQ(scheduler.pool().used(), 4 + 8);
}

TEST(Scheduler, PromptsThatShareNothingDoNotWait) {
  Scheduler scheduler({.blocks = 100, .step_tokens = kSystem + kOwn + 20});
  add_with_system_prompt(scheduler, 3);
  const int64_t other = scheduler.add(counted_ids(kSystem, 500), 1, 0);
  const Scheduler::Step first = step(scheduler);
  ASSERT_EQ(first.work.size(), 2u);
  EXPECT_EQ(first.work[1].sequence, other);
  EXPECT_EQ(first.work[1].count, 20);
  // Those that came before it and waited are served before it.
  const Scheduler::Step second = step(scheduler);
  ASSERT_EQ(second.work.size(), 4u);
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ(second.work[static_cast<size_t>(i)].ready, std::vector{i});
  EXPECT_EQ(second.work[3].first, 20);
}

// The blocks that older ones will need besides what they share are not given to younger ones.
TEST(Scheduler, WhatWaitsForASharedBlockKeepsItsRoom) {
  for (const auto& [blocks, begin] : {std::pair<int64_t, size_t>{9, 1}, {10, 2}}) {
    Scheduler scheduler({.blocks = blocks, .step_tokens = 10000});
    add_with_system_prompt(scheduler, 2);
    scheduler.add(counted_ids(kSystem, 500), 1, 0);
    EXPECT_EQ(step(scheduler).work.size(), begin) << blocks;
  }
  Scheduler few({.blocks = 100, .step_tokens = 10000, .step_sequences = 2});
  add_with_system_prompt(few, 2);
  few.add(counted_ids(kSystem, 500), 1, 0);
  EXPECT_EQ(step(few).work.size(), 1u);
  EXPECT_EQ(step(few).work.size(), 2u);
  EXPECT_TRUE(few.blocks(2).empty());
}

TEST(Scheduler, ThePrefixUsedLeastRecentlyGoesFirstAndItsEndBeforeItsBeginning) {
  Scheduler scheduler({.blocks = 5});
  const std::vector<int32_t> first = counted_ids(2 * kCacheRows + 1), second = counted_ids(130, 1000);
  begins_at(scheduler, first);
  begins_at(scheduler, second);
  EXPECT_EQ(scheduler.pool().known(), 4);
  EXPECT_EQ(begins_at(scheduler, first), 2 * kCacheRows);
  begins_at(scheduler, counted_ids(kCacheRows + 1, 2000));  // takes the block that is free, and one more
  EXPECT_EQ(begins_at(scheduler, first), 2 * kCacheRows);
  EXPECT_EQ(begins_at(scheduler, second), kCacheRows);
}

TEST(Scheduler, TheYoungestGoesBackAndNoneBeginsMeanwhile) {
  Scheduler scheduler({.blocks = 3, .prefix_cache = false});
  for (int32_t i = 0; i < 3; ++i) scheduler.add(counted_ids(kCacheRows - i, 100 * i), 1, 0);
  scheduler.add(counted_ids(3, 300), 1, 0);
  EXPECT_EQ(step(scheduler).work.size(), 3u);
  EXPECT_EQ(scheduler.running(), 3);
  const Scheduler::Step crowded = step(scheduler);  // the first one needs a second block
  ASSERT_EQ(crowded.work.size(), 2u);
  EXPECT_EQ(crowded.work[1].sequence, 1);
  EXPECT_TRUE(scheduler.blocks(2).empty());
  EXPECT_TRUE(scheduler.blocks(3).empty());
  EXPECT_EQ(scheduler.waiting(), 2);
  EXPECT_EQ(scheduler.preempted(), 1);
  scheduler.end(0);
  const Scheduler::Step again = step(scheduler);
  ASSERT_EQ(again.work.size(), 2u);  // the second one of two blocks, and the third one once more
  EXPECT_EQ(again.work[1].sequence, 2);
  EXPECT_EQ(again.work[1].count, kCacheRows - 1);
}

// The source of a copy may be written before the copy is made again.
TEST(Scheduler, AfterAFailedStepRowsOfACopiedBlockAreComputedAgain) {
  Scheduler scheduler({.blocks = 2});
  scheduler.add(counted_ids(10), 2, 0);
  step(scheduler);
  const Scheduler::Step failed = scheduler.next();
  ASSERT_EQ(failed.copies.size(), 1u);
  scheduler.end(1);
  scheduler.add(counted_ids(5, 100), 1, 0);
  const Scheduler::Step again = scheduler.next();
  EXPECT_TRUE(again.copies.empty());
  ASSERT_EQ(again.work.size(), 2u);
  EXPECT_EQ(again.work[0].first, 0);
  EXPECT_EQ(again.work[0].count, 11);
  EXPECT_EQ(scheduler.blocks(2)[0], failed.copies[0].from);
}

TEST(Scheduler, APausedSequenceKeepsItsBlocksUntilTheyAreNeeded) {
  Scheduler scheduler({.blocks = 2, .prefix_cache = false});
  scheduler.add(counted_ids(10), 1, 0);
  step(scheduler);
  scheduler.pause(0);
  EXPECT_TRUE(scheduler.idle());
  scheduler.extend(0, std::vector<int32_t>{1, 2});
  Scheduler::Step next = step(scheduler);
  EXPECT_EQ(next.work.at(0).first, 10);
  EXPECT_EQ(next.work.at(0).count, 3);
  scheduler.pause(0);
  scheduler.add(counted_ids(kCacheRows + 1), 1, 0);
  EXPECT_EQ(step(scheduler).work.at(0).sequence, 1);
  EXPECT_TRUE(scheduler.blocks(0).empty());
  scheduler.end(1);
  scheduler.extend(0, std::vector<int32_t>{3});
  next = step(scheduler);
  EXPECT_EQ(next.work.at(0).first, 0);
  EXPECT_EQ(next.work.at(0).count, 15);
}

// Its last token makes a sequence too long for the keys that it had.
TEST(Scheduler, APausedSequenceWaitsForNothing) {
  Scheduler scheduler({.blocks = 2, .common_length = 4, .recompute_longer = true});
  scheduler.add(counted_ids(4), 1, 0);
  step(scheduler);
  scheduler.pause(0);
  EXPECT_TRUE(scheduler.idle());
  EXPECT_TRUE(scheduler.next().empty());
  scheduler.extend(0, std::vector<int32_t>{7});
  EXPECT_EQ(step(scheduler).work.at(0).count, 6);
}

// Calls a function while no memory of this size is given, and, if that fails, again. Returns whether it
// failed.
template <typename Call>
bool fails_once(size_t bytes, const Call& call) {
  try {
    const test::NoMemoryOf none(bytes);
    call();
    return false;
  } catch (const std::bad_alloc&) {  // returns true
  }
  call();
  return true;
}

// A whole block becomes known with the step, and the followers of a group go on.
TEST(Scheduler, WithoutMemoryAStepIsChosenOrDoneAgain) {
  int64_t not_chosen = 0, not_done = 0;
  for (size_t bytes = 1; bytes <= 600; ++bytes) {
    SCOPED_TRACE(bytes);
    Scheduler scheduler({.blocks = 20});
    scheduler.add(counted_ids(kCacheRows + 2), 3, 0);
    for (const size_t sequences : {1u, 3u}) {
      Scheduler::Step chosen;
      not_chosen += fails_once(bytes, [&] { chosen = scheduler.next(); });
      ASSERT_EQ(chosen.work.size(), sequences);
      bool again = false;
      not_done += fails_once(bytes, [&] {
        if (std::exchange(again, true)) chosen = scheduler.next();
        scheduler.done(chosen);
      });
      ASSERT_EQ(chosen.work.size(), sequences);
      for (const int64_t number : {0, 1, 2}) scheduler.append(number, 7);
    }
    EXPECT_EQ(step(scheduler).work.size(), 3u);
    for (const int64_t number : {0, 1, 2}) scheduler.end(number);
    EXPECT_EQ(scheduler.pool().used(), 0);
    EXPECT_EQ(begins_at(scheduler, counted_ids(kCacheRows + 5)), kCacheRows);
  }
  EXPECT_GT(not_chosen, 2);
  EXPECT_GT(not_done, 0);
}

// The ids of a block cannot be copied while it decodes its last row.
TEST(Scheduler, ABlockWhoseContentFindsNoMemoryIsKnownLater) {
  Scheduler scheduler({.blocks = 20});
  const int64_t sequence = scheduler.add(counted_ids(kCacheRows - 4), 1, 0);
  int refused = 0;
  for (int i = 0; i < 10; ++i) {
    const Scheduler::Step next = scheduler.next();
    ASSERT_EQ(next.work.size(), 1u) << "token " << i;
    std::optional<test::NoMemoryOf> no_ids;
    if (next.work[0].first + next.work[0].count == kCacheRows) no_ids.emplace(kCacheRows * sizeof(int32_t));
    refused += no_ids.has_value();
    scheduler.done(next);
    no_ids.reset();
    scheduler.append(sequence, static_cast<int32_t>(kCacheRows - 4 + i));
  }
  EXPECT_EQ(refused, 1);
  scheduler.end(sequence);
  EXPECT_EQ(begins_at(scheduler, counted_ids(kCacheRows + 5)), kCacheRows);
}

// An older one that goes on asks which blocks a younger one has, after it has found its first block.
TEST(Scheduler, AfterAnErrorOneThatWaitsHasNoBlocks) {
  Scheduler scheduler({.blocks = 4});
  scheduler.add(counted_ids(kCacheRows + 2), 1, 0);
  step(scheduler);
  scheduler.pause(0);
  ASSERT_TRUE(scheduler.give_paused());
  scheduler.add(counted_ids(2 * kCacheRows + 2, 500), 1, 0);
  step(scheduler);
  ASSERT_EQ(scheduler.pool().used(), 3);
  scheduler.extend(0, counted_ids(kCacheRows - 4, 900));
  {
    const test::NoMemoryOf no_list(3 * sizeof(int32_t));
    EXPECT_THROW(scheduler.next(), std::bad_alloc);
  }
  EXPECT_TRUE(scheduler.blocks(0).empty());
  EXPECT_EQ(scheduler.pool().used(), 3);
  EXPECT_EQ(step(scheduler).work.at(0).first, kCacheRows);
}

TEST(Scheduler, APausedSequenceIsExtendedWhollyOrNotAtAll) {
  int64_t failed = 0;
  for (size_t bytes = 1; bytes <= 200; ++bytes) {
    SCOPED_TRACE(bytes);
    Scheduler scheduler({.blocks = 20});
    scheduler.add(counted_ids(3), 1, 0);
    step(scheduler);
    scheduler.pause(0);
    const std::vector<int32_t> more = counted_ids(5, 200);
    bool again = false;
    failed += fails_once(bytes, [&] {
      if (std::exchange(again, true)) {
        EXPECT_EQ(scheduler.ids(0).size(), 4u);
      }
      scheduler.extend(0, more);
    });
    EXPECT_EQ(scheduler.ids(0).size(), 9u);
    EXPECT_EQ(scheduler.reach(0, 4), 9);
    const Scheduler::Step next = step(scheduler);
    ASSERT_EQ(next.work.size(), 1u);
    EXPECT_EQ(next.work[0].count, 6);
  }
  EXPECT_GT(failed, 1);
}

// Two groups run, the first with a block of known content, and one waits.
TEST(Scheduler, SequencesWaitPauseAndEndWithoutMemory) {
  const auto pool = std::make_shared<BlockPool>(40);
  Scheduler scheduler({}, pool);
  scheduler.add(counted_ids(kCacheRows + 2), 3, 0);
  scheduler.add(counted_ids(5, 500), 3, 1);
  step(scheduler);
  step(scheduler);
  scheduler.add(counted_ids(5, 900), 3, 0);
  {
    const test::NoMemory none;
    pool->restrict_to([](int32_t block) { return block < 3; });
    scheduler.pause(1);
    scheduler.pause(4);
    pool->recompute(1);
    for (int64_t number = 0; number < 9; ++number) scheduler.end(number);
    pool->lift();
    pool->recompute();
  }
  EXPECT_TRUE(scheduler.idle());
  EXPECT_EQ(pool->used() + pool->known(), 0);
  for (int64_t i = 0; i < pool->limit(); ++i) EXPECT_TRUE(pool->take().has_value());
  EXPECT_FALSE(pool->take().has_value());
}

// Blocks 0 to 2 have memory: what nobody uses goes first, then the youngest; after some steps all are tried.
TEST(Scheduler, WithoutMemoryForMoreBlocksItUsesThoseThatThereAre) {
  const auto pool = std::make_shared<BlockPool>(100);
  Scheduler scheduler({}, pool);
  begins_at(scheduler, counted_ids(kCacheRows + 1));  // block 0 has a known content
  for (int32_t i = 0; i < 2; ++i) scheduler.add(counted_ids(kCacheRows - 1, 100 * (i + 1)), 1, 0);
  step(scheduler);
  step(scheduler);
  EXPECT_EQ(pool->known(), 1);
  scheduler.next();  // wants two more
  pool->restrict_to([](int32_t block) { return block < 3; });
  scheduler.drop_missing();
  EXPECT_EQ(pool->most(), 3);
  Scheduler::Step next = step(scheduler);
  ASSERT_EQ(next.work.size(), 1u);
  EXPECT_EQ(next.work[0].sequence, 1);
  EXPECT_EQ(scheduler.blocks(1)[1], 0);
  EXPECT_EQ(scheduler.first_waiting(), 2);
  EXPECT_EQ(scheduler.preempted(), 1);
  for (int steps = 0; steps < 15; ++steps) next = step(scheduler);
  EXPECT_EQ(next.work.size(), 1u);
  EXPECT_FALSE(pool->restricted());
  EXPECT_EQ(step(scheduler).work.size(), 2u);
}

Limits random_limits(std::mt19937& random, int64_t blocks) {
  Limits limits;
  limits.blocks = blocks;
  limits.step_tokens = 1 + random() % (random() % 4 == 0 ? 8 : 300);
  limits.step_sequences = 1 + random() % 12;
  limits.prefix_cache = random() % 4 != 0;
  return limits;
}

// One scheduler, or several that share their blocks, of which one may go before the others are done.
void run_history(uint32_t seed, test::History::Counts& counts) {
  std::mt19937 random(seed);
  const int64_t blocks = 1 + random() % (random() % 2 == 0 ? 6 : 30);
  test::Store store(blocks);
  Limits limits;
  if (random() % 3 == 0) {
    limits.common_length = 20 + random() % 200;
    limits.recompute_longer = random() % 2 == 0;
  }
  std::vector<std::unique_ptr<test::History>> histories;
  const uint32_t schedulers = random() % 3 == 0 ? 2 + random() % 2 : 1;
  for (uint32_t i = 0; i < schedulers; ++i) {
    Limits own = random_limits(random, blocks);
    own.common_length = limits.common_length;
    own.recompute_longer = limits.recompute_longer;
    histories.push_back(std::make_unique<test::History>(own, store, seed + i, counts));
  }
  for (int i = 0; i < 30 && !testing::Test::HasFailure(); ++i) histories[random() % schedulers]->act();
  if (schedulers > 1 && random() % 4 == 0) histories.pop_back();
  if (!testing::Test::HasFailure()) test::History::drain(store);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr uint32_t kHistories = 1000;
#else
constexpr uint32_t kHistories = 10000;
#endif

uint32_t number_from(const char* variable, uint32_t otherwise) {
  const char* const value = std::getenv(variable);
  return value != nullptr ? static_cast<uint32_t>(std::stoul(value)) : otherwise;
}

// Requests, groups, cancels, failed steps, changed weights, pauses and continuations in random order.
TEST(Scheduler, KeepsItsPromisesInRandomHistories) {
  const uint32_t histories = number_from("TRL_TEST_HISTORIES", kHistories);
  const uint32_t first = number_from("TRL_TEST_FIRST_HISTORY", 0);
  test::History::Counts n;
  for (uint32_t seed = first; seed < first + histories && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    run_history(seed, n);
  }
  // Everything happened, often; how often depends on the compiler's order of arguments.
  EXPECT_GT(n.finished, 10 * histories);
  for (const int64_t count : {n.cancelled, n.preempted, n.copies, n.found, n.failed, n.extended, n.taken_back,
                              n.crossed, n.stolen, n.deferred, n.refused})
    EXPECT_GT(count, histories / 4);
  EXPECT_GT(n.passed, histories / 100);
  EXPECT_GT(n.beside, histories / 100);
  EXPECT_GT(n.taken, histories / 100);
  EXPECT_GT(n.accepted, histories);
  EXPECT_GT(n.tentative - n.accepted, histories);
}

// 87776: one waits for what a younger one computes, whose first step failed and which gets no rows now.
TEST(Scheduler, KeepsItsPromisesInHistoriesThatFailedBefore) {
  test::History::Counts n;
  for (const uint32_t seed : {87776u}) {
    SCOPED_TRACE(seed);
    run_history(seed, n);
  }
  EXPECT_GT(n.deferred, 0);
}

}  // namespace
}  // namespace trl::generate
