// The scheduler without a model: random histories, whose keys a shadow memory keeps.
#include "generate/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "kernels/kinds.h"

namespace trl::generate {
namespace {

using kernels::kCacheRows;

// The next id of a sequence depends on all before it, as a model's would.
int32_t next_id(std::span<const int32_t> ids, uint64_t salt) {
  uint64_t hash = salt;
  for (const int32_t id : ids) hash = (hash ^ static_cast<uint64_t>(id)) * 0x9E3779B97F4A7C15u;
  return static_cast<int32_t>(hash >> 33);
}

// Blocks that hold the ids whose keys they stand for.
class Memory {
 public:
  void compute(const Scheduler& scheduler, const Scheduler::Step& step) {
    for (const auto& [from, to] : step.copies) blocks_[to] = blocks_[from];
    for (const Scheduler::Work& work : step.work) {
      const auto ids = scheduler.ids(work.sequence);
      const auto blocks = scheduler.blocks(work.sequence);
      for (int64_t p = work.first; p < work.first + work.count; ++p) {
        const int32_t block = blocks[static_cast<size_t>(p / kCacheRows)];
        EXPECT_EQ(scheduler.pool().users(block), 1);
        blocks_[block].resize(kCacheRows, -1);
        blocks_[block][static_cast<size_t>(p % kCacheRows)] = ids[static_cast<size_t>(p)];
      }
      expect_holds(ids, blocks, work.first + work.count);
    }
  }

 private:
  void expect_holds(std::span<const int32_t> ids, std::span<const int32_t> blocks, int64_t end) {
    for (int64_t p = 0; p < end; ++p) {
      const std::vector<int32_t>& block = blocks_[blocks[static_cast<size_t>(p / kCacheRows)]];
      ASSERT_EQ(block.at(static_cast<size_t>(p % kCacheRows)), ids[static_cast<size_t>(p)]) << p;
    }
  }
  std::map<int32_t, std::vector<int32_t>> blocks_;
};

std::vector<int32_t> some_ids(std::mt19937& random, int64_t count) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < count; ++i) ids.push_back(static_cast<int32_t>(random() % 1000));
  return ids;
}

class History {
 public:
  History(const Limits& limits, uint32_t seed) : scheduler_(limits), random_(seed) {
    for (int i = 0; i < 3; ++i) beginnings_.push_back(some_ids(random_, 1 + random_() % 200));
  }

  void add() {
    const int64_t most = scheduler_.limits().blocks * kCacheRows;
    std::vector<int32_t> ids = beginnings_[random_() % beginnings_.size()];
    const std::vector<int32_t> more = some_ids(random_, 1 + random_() % 100);
    ids.insert(ids.end(), more.begin(), more.end());
    ids.resize(std::min<size_t>(ids.size(), static_cast<size_t>(most - 40)));
    const int64_t count = random_() % 3 == 0 ? 1 + random_() % 5 : 1;
    const int64_t first = scheduler_.add(ids, count, 0);
    for (int64_t i = 0; i < count; ++i) {
      all_[first + i] = {ids, 1 + static_cast<int64_t>(random_() % 40), random_() % 8 == 0};
      order_.push_back(first + i);
    }
  }

  // One step, sometimes one that fails before it is done.
  void step() {
    Scheduler::Step step = scheduler_.next();
    check(step);
    if (random_() % 16 == 0) {
      if (random_() % 2 == 0) end_any();
      step = scheduler_.next();
      check(step);
    }
    memory_.compute(scheduler_, step);
    scheduler_.done(step);
    for (const Scheduler::Work& work : step.work)
      for (const int64_t sequence : work.ready) go_on(sequence);
  }
  void end_any() {
    if (all_.empty()) return;
    auto i = all_.begin();
    std::advance(i, random_() % all_.size());
    scheduler_.end(i->first);
    all_.erase(i);
    ++cancelled;
  }
  void recompute() { scheduler_.recompute(); }
  void drain() {
    for (int64_t steps = 0; !all_.empty(); ++steps) {
      ASSERT_LT(steps, 100000) << "a sequence starves";
      if (scheduler_.idle())
        go_on_paused();
      else
        step();
    }
    EXPECT_EQ(scheduler_.pool().used(), 0);
    EXPECT_TRUE(scheduler_.idle());
  }

  int64_t finished = 0, cancelled = 0, preempted = 0, shared = 0;

 private:
  struct One {
    std::vector<int32_t> ids;
    int64_t left;
    bool pauses;
  };

  void check(const Scheduler::Step& step) {
    const Limits& limits = scheduler_.limits();
    int64_t rows = 0;
    for (size_t i = 0; i < step.work.size(); ++i) {
      const Scheduler::Work& work = step.work[i];
      rows += work.count;
      EXPECT_GT(work.count, 0);
      const auto ids = scheduler_.ids(work.sequence);
      EXPECT_TRUE(std::ranges::equal(ids, all_.at(work.sequence).ids));
      EXPECT_LE(work.first + work.count, std::ssize(ids));
      EXPECT_EQ(work.ready.empty(), work.first + work.count < std::ssize(ids));
      EXPECT_GE(std::ssize(scheduler_.blocks(work.sequence)), Scheduler::blocks_of(work.first + work.count));
      if (work.first > 0 && work.count > 1) ++shared;
    }
    EXPECT_LE(rows, limits.step_tokens);
    EXPECT_TRUE(scheduler_.idle() || rows > 0) << "nothing moves";
    check_pool();
  }
  // Each block has as many users as sequences that name it.
  void check_pool() {
    std::map<int32_t, int64_t> users;
    for (const auto& [number, one] : all_)
      for (const int32_t block : scheduler_.blocks(number)) ++users[block];
    for (const auto& [block, count] : users) EXPECT_EQ(scheduler_.pool().users(block), count);
    EXPECT_EQ(scheduler_.pool().used(), std::ssize(users));
    EXPECT_LE(scheduler_.pool().used() + scheduler_.pool().known(), scheduler_.limits().blocks);
    for (const auto& [number, one] : all_)
      for (const int32_t block : scheduler_.blocks(number)) EXPECT_LT(block, scheduler_.pool().end());
  }
  void go_on(int64_t number) {
    One& one = all_.at(number);
    const int32_t id = next_id(one.ids, static_cast<uint64_t>(number));
    one.ids.push_back(id);
    scheduler_.append(number, id);
    if (--one.left > 0 && Scheduler::blocks_of(std::ssize(one.ids)) <= scheduler_.limits().blocks) return;
    ++finished;
    if (one.pauses && std::ssize(one.ids) + 60 < scheduler_.limits().blocks * kCacheRows) {
      scheduler_.pause(number);
      paused_.push_back(number);
      return;
    }
    scheduler_.end(number);
    all_.erase(number);
  }
  void go_on_paused() {
    for (const int64_t number : std::exchange(paused_, {})) {
      if (!all_.contains(number)) continue;
      One& one = all_.at(number);
      one.left = 5;
      one.pauses = false;
      const std::vector<int32_t> more = some_ids(random_, 3);
      one.ids.insert(one.ids.end(), more.begin(), more.end());
      scheduler_.extend(number, more);
    }
  }

  Scheduler scheduler_;
  std::mt19937 random_;
  std::vector<std::vector<int32_t>> beginnings_;
  std::map<int64_t, One> all_;
  std::vector<int64_t> order_, paused_;
  Memory memory_;
};

// Invariants of random histories: adds, groups, cancels, failed steps, changed weights, pauses.
TEST(Scheduler, RandomHistoriesKeepEveryBlockCounted) {
  int64_t steps = 0, finished = 0;
  for (uint32_t seed = 0; seed < 300 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    Limits limits;
    limits.blocks = 2 + random() % 30;
    limits.step_tokens = 1 + random() % 200;
    limits.step_sequences = 1 + random() % 12;
    limits.prefix_cache = random() % 4 != 0;
    History history(limits, seed);
    for (int i = 0; i < 120; ++i, ++steps) {
      if (random() % 4 == 0) history.add();
      if (random() % 40 == 0) history.end_any();
      if (random() % 60 == 0) history.recompute();
      history.step();
    }
    history.drain();
    finished += history.finished;
  }
  EXPECT_GT(finished, 5000);
}

}  // namespace
}  // namespace trl::generate
