// Tentative ids: which rows of them the scheduler computes, and that those that are wrong leave no trace.
#include <gtest/gtest.h>

#include <random>
#include <utility>

#include "generate/scheduler.h"
#include "generate/scheduler_life.h"
#include "generate/scheduler_steps.h"

namespace trl::generate {
namespace {

using kernels::kCacheRows;
using test::counted_ids;
using test::step;

// Computes a step in which sequence 0 decodes, and gives it these tokens.
Scheduler::Work decode(Scheduler& scheduler, std::vector<int32_t> ids) {
  const Scheduler::Step next = scheduler.next();
  scheduler.done(next);
  for (const int32_t id : ids) scheduler.append(0, id);
  return next.work.at(0);
}

TEST(SchedulerTentative, RightTentativeIdsSaveSteps) {
  Scheduler scheduler({.blocks = 4});
  scheduler.add(counted_ids(10), 1, 0);
  EXPECT_FALSE(scheduler.decodes(0));
  step(scheduler);
  EXPECT_TRUE(scheduler.decodes(0));
  scheduler.propose(0, counted_ids(4, 100));
  Scheduler::Work work = decode(scheduler, {100, 101, 7});  // the third one is wrong
  EXPECT_EQ(work.count, 5);
  EXPECT_EQ(work.tentative, 4);
  EXPECT_EQ(work.ready, std::vector<int64_t>{0});
  EXPECT_TRUE(scheduler.tentative(0).empty());
  EXPECT_EQ(scheduler.ids(0).size(), 14u);
  scheduler.propose(0, counted_ids(2, 200));
  work = decode(scheduler, {200, 201, 202});  // both are right
  EXPECT_EQ(work.first, 13);
  EXPECT_EQ(work.count, 3);
  work = decode(scheduler, {203});
  EXPECT_EQ(work.first, 16);
  EXPECT_EQ(work.count, 1);
}

TEST(SchedulerTentative, WrongTentativeIdsGiveTheirBlockBack) {
  Scheduler scheduler({.blocks = 4});
  scheduler.add(counted_ids(kCacheRows - 2), 1, 0);
  step(scheduler);
  scheduler.propose(0, counted_ids(8, 100));
  EXPECT_EQ(decode(scheduler, {5}).tentative, 8);
  EXPECT_EQ(scheduler.blocks(0).size(), 1u);
  EXPECT_EQ(scheduler.pool().used(), 1);
  scheduler.propose(0, counted_ids(8, 100));
  decode(scheduler, {100, 101, 5});
  EXPECT_EQ(scheduler.blocks(0).size(), 2u);
  scheduler.end(0);
  EXPECT_EQ(scheduler.pool().known(), 1);  // the whole block, with the ids that were right
  std::vector<int32_t> ids = counted_ids(kCacheRows - 2);
  for (const int32_t id : {0, 5, 100, 101}) ids.push_back(id);
  scheduler.add(ids, 1, 0);
  EXPECT_EQ(step(scheduler).work.at(0).first, kCacheRows);
}

TEST(SchedulerTentative, TentativeIdsTakeNothingFromOthers) {
  Scheduler few({.blocks = 2});
  for (const int32_t first : {0, 500}) few.add(counted_ids(kCacheRows - 2, first), 1, 0);
  step(few);
  for (const int64_t sequence : {0, 1}) few.propose(sequence, counted_ids(8, 900));
  Scheduler::Step next = few.next();
  ASSERT_EQ(next.work.size(), 2u);
  for (const Scheduler::Work& work : next.work) EXPECT_LE(work.tentative, 1);
  few.done(next);
  for (const int64_t sequence : {0, 1}) few.append(sequence, 5);
  EXPECT_EQ(few.pool().used(), 2);

  Scheduler shared({.blocks = 20, .step_tokens = 6});
  shared.add(counted_ids(5), 2, 0);
  step(shared);
  for (const int64_t sequence : {0, 1}) shared.propose(sequence, counted_ids(8, 900));
  next = shared.next();
  ASSERT_EQ(next.work.size(), 2u);
  for (const Scheduler::Work& work : next.work) EXPECT_EQ(work.tentative, 2);
  shared.done(next);
  for (const int64_t sequence : {0, 1}) shared.append(sequence, 5);
  shared.add(counted_ids(20, 300), 1, 0);  // a prompt comes first
  for (const int64_t sequence : {0, 1}) shared.propose(sequence, counted_ids(8, 900));
  next = shared.next();
  ASSERT_EQ(next.work.size(), 3u);
  EXPECT_EQ(next.work[0].tentative + next.work[1].tentative, 0);
  EXPECT_EQ(next.work[2].count, 4);
}

// Keys of longer ones depend on more than the ids before them.
TEST(SchedulerTentative, TentativeIdsStayWithinTheCommonLength) {
  Scheduler scheduler({.blocks = 4, .common_length = 13, .recompute_longer = true});
  scheduler.add(counted_ids(10), 1, 0);
  step(scheduler);
  scheduler.propose(0, counted_ids(8, 100));
  EXPECT_EQ(scheduler.tentative(0).size(), 2u);
  EXPECT_EQ(decode(scheduler, {100, 101, 102}).tentative, 2);
  EXPECT_FALSE(scheduler.decodes(0));
  const Scheduler::Work work = decode(scheduler, {103});
  EXPECT_EQ(work.first, 0);
  EXPECT_EQ(work.count, 14);
}

// Returns the tokens of some requests in a pool that is too small for all, and the steps that these took.
// propose: gives tentative ids of which some are right.
std::pair<std::vector<std::vector<int32_t>>, int64_t> tokens_of_some(uint32_t seed, bool propose) {
  Scheduler scheduler({.blocks = 6, .step_tokens = 40});
  std::mt19937 random(seed);
  std::vector<std::vector<int32_t>> all;
  const auto token = [](std::span<const int32_t> ids, int64_t number) {
    uint64_t hash = static_cast<uint64_t>(number);
    for (const int32_t id : ids) hash = test::mixed(hash, static_cast<uint64_t>(id));
    return static_cast<int32_t>(hash % 7);
  };
  for (int32_t i = 0; i < 4; ++i) {
    const int64_t count = i % 2 == 0 ? 1 : 3;
    scheduler.add(counted_ids(30 + 20 * i, 100 * i), count, 0);
    all.resize(all.size() + static_cast<size_t>(count));
  }
  int64_t steps = 0;
  for (; !scheduler.idle() && steps < 10000; ++steps) {
    for (int64_t number = 0; propose && number < std::ssize(all); ++number) {
      if (all[static_cast<size_t>(number)].size() >= 80 || !scheduler.decodes(number)) continue;
      std::vector<int32_t> ids(scheduler.ids(number).begin(), scheduler.ids(number).end()), guesses;
      for (int i = 0; i < 5; ++i) {
        guesses.push_back(random() % 4 == 0 ? 8 : token(ids, number));
        ids.push_back(guesses.back());
      }
      scheduler.propose(number, guesses);
    }
    const Scheduler::Step next = scheduler.next();
    std::vector<std::vector<int32_t>> checked;
    for (const Scheduler::Work& work : next.work) {
      const auto ids = scheduler.tentative(work.sequence).first(static_cast<size_t>(work.tentative));
      checked.emplace_back(ids.begin(), ids.end());
    }
    scheduler.done(next);
    for (size_t w = 0; w < next.work.size(); ++w) {
      for (const int64_t number : next.work[w].ready) {
        std::vector<int32_t>& own = all[static_cast<size_t>(number)];
        for (size_t i = 0; own.size() < 80; ++i) {
          own.push_back(token(scheduler.ids(number), number));
          scheduler.append(number, own.back());
          if (i >= checked[w].size() || checked[w][i] != own.back()) break;
        }
        if (own.size() == 80) scheduler.end(number);
      }
    }
  }
  EXPECT_TRUE(scheduler.idle());
  EXPECT_EQ(scheduler.pool().used(), 0);
  return {all, steps};
}

TEST(SchedulerTentative, TentativeIdsChangeNoToken) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const auto [plain, steps] = tokens_of_some(seed, false);
    const auto [tokens, fewer] = tokens_of_some(seed, true);
    EXPECT_EQ(tokens, plain) << seed;
    EXPECT_LT(fewer, steps) << seed;
  }
}

}  // namespace
}  // namespace trl::generate
