// The memory counter, the thread pool, interrupts, cpus, torch's random order.
#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <numeric>
#include <thread>

#include "base/arithmetic/python_random.h"
#include "base/arithmetic/random.h"
#include "base/error.h"
#include "base/files/files.h"
#include "base/interrupt.h"
#include "base/json/json.h"
#include "base/memory/memory.h"
#include "base/memory/system_memory.h"
#include "base/threads/polled_lock.h"
#include "base/threads/thread_pool.h"
#include "support/golden.h"
#include "support/interrupts.h"
#include "support/scratch.h"

namespace trl::base {
namespace {

TEST(MemoryCounter, CountsByKindAndKeepsPeaks) {
  MemoryCounter counter;
  counter.charge(MemoryKind::weights, 100);
  counter.charge(MemoryKind::data, 20);
  counter.release(MemoryKind::weights, 60);
  EXPECT_EQ(counter.now(), 60);
  EXPECT_EQ(counter.peak(), 120);
  EXPECT_EQ(counter.now(MemoryKind::weights), 40);
  EXPECT_EQ(counter.peak(MemoryKind::weights), 100);
  counter.reset_peak();
  EXPECT_EQ(counter.peak(), 60);
  EXPECT_EQ(counter.peak(MemoryKind::weights), 40);
}

TEST(MemoryCounter, LimitIsAnErrorThatChargesNothing) {
  MemoryCounter counter;
  counter.set_limit(100);
  counter.charge(MemoryKind::workspace, 90);
  try {
    counter.charge(MemoryKind::activations, 11);
    FAIL() << "charged";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::out_of_memory);
    EXPECT_EQ(error.key(), "runtime.host_memory_limit");
    EXPECT_EQ(
        error.message(),
        "runtime.host_memory_limit: 11 bytes of activations do not fit: 90 bytes in use, limit 100 bytes");
  }
  EXPECT_EQ(counter.now(), 90);
  counter.set_limit(101);
  counter.charge(MemoryKind::activations, 11);
  EXPECT_EQ(counter.now(), 101);
}

// What is refused is never in the total, not even for a moment.
TEST(MemoryCounter, ARefusedRequestTakesNoRoomFromOthers) {
  MemoryCounter counter;
  counter.set_limit(1 << 20);
  std::atomic<bool> begun{false}, over{false};
  std::thread large([&] {
    while (!over) {
      EXPECT_FALSE(counter.try_charge(MemoryKind::data, int64_t{1} << 40));
      begun = true;
    }
  });
  while (!begun) std::this_thread::yield();
  int refused = 0;
  for (int i = 0; i < 2'000'000; ++i) {
    if (counter.try_charge(MemoryKind::workspace, 1024)) {
      counter.release(MemoryKind::workspace, 1024);
    } else {
      ++refused;
    }
  }
  over = true;
  large.join();
  EXPECT_EQ(refused, 0);
  EXPECT_EQ(counter.now(), 0);
  EXPECT_FALSE(counter.try_charge(MemoryKind::data, INT64_MAX));
}

TEST(ThreadPool, RunsEveryPieceOnce) {
  for (const int threads : {1, 2, 4}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 50; ++round) {
      std::vector<std::atomic<int>> seen(1000);
      pool.parallel_for(1000, 7, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
      });
      for (const auto& count : seen) ASSERT_EQ(count.load(), 1);
    }
  }
}

TEST(ThreadPool, WhoWaitsForAnotherCallsJobCanStop) {
  ThreadPool pool(2);
  std::atomic<bool> working{false}, over{false};
  EXPECT_FALSE(in_pool());
  std::thread other([&] {
    pool.parallel_for(2, 1, [&](int64_t, int64_t) {
      EXPECT_TRUE(in_pool());
      working = true;
      while (!over) std::this_thread::yield();
    });
  });
  while (!working) std::this_thread::yield();
  test::Stops stops;
  const InterruptScope scope(&stops);
  EXPECT_THROW(pool.parallel_for(2, 1, [](int64_t, int64_t) {}), Error);
  over = true;
  other.join();
  EXPECT_FALSE(in_pool());
}

TEST(ThreadPool, RethrowsTheLowestFailureAndGoesOn) {
  ThreadPool pool(4);
  for (int round = 0; round < 20; ++round) {
    try {
      pool.parallel_for(100, 1, [](int64_t begin, int64_t) {
        if (begin >= 10) throw Error(Status::format, fmt::format("{}", begin));
      });
      FAIL() << "no error";
    } catch (const Error& error) {
      ASSERT_EQ(error.message(), "10");
    }
  }
  std::atomic<int64_t> sum{0};
  pool.parallel_for(10, 1, [&](int64_t begin, int64_t) { sum += begin; });
  EXPECT_EQ(sum.load(), 45);
}

TEST(Interrupt, EndsTheCallOfItsThreadAndOfItsWorkers) {
  poll();  // nothing interrupts this thread
  test::StopsAt at(20);
  const InterruptScope scope(&at);
  ThreadPool pool(3);
  std::atomic<int> polled{0};
  try {
    pool.parallel_for(1000, 1, [&](int64_t, int64_t) {
      poll();
      ++polled;
    });
    FAIL() << "not cancelled";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::cancelled);
  }
  EXPECT_EQ(polled, 19);
  EXPECT_TRUE(stopped());
  {
    const InterruptScope nothing(nullptr);
    EXPECT_FALSE(stopped());
  }
  at.go_on();
  poll();
}

// Parsing and reading poll every few milliseconds.
TEST(Interrupt, LongTextsAndFilesPoll) {
  std::string json = "[\"" + std::string(4 << 20, 'x') + "\"";
  while (json.size() < 16 << 20) json += ", 12345";
  json += "]";
  EXPECT_GE(test::polls_of([&] { parse_json(json, "test"); }), 60);
  const test::Scratch scratch;
  write_file(scratch / "large", std::string(32 << 20, 'x'));
  EXPECT_GE(test::polls_of([&] { read_file(scratch / "large"); }), 8);
  EXPECT_GE(test::polls_of([&] { file_xxh3(scratch / "large"); }), 8);
}

TEST(Interrupt, AMutexThatAnotherCallHoldsIsWaitedFor) {
  std::mutex mutex;
  const std::unique_lock held = polled_lock(mutex);
  std::thread([&] {
    test::StopsAt stops(5);
    const InterruptScope scope(&stops);
    EXPECT_THROW(polled_lock(mutex), Error);
  }).join();
}

TEST(Cpus, AtLeastOne) { EXPECT_GE(available_cpus(), 1); }

TEST(Cpus, QuotasOfTheGroupAndOfThoseAboveIt) {
  const test::Scratch mounts;
  const auto write = [&](const std::string& file, std::string_view text) {
    make_directories(mounts / file.substr(0, file.rfind('/')));
    replace_file(mounts / file, text);
  };
  const auto cpus = [&](std::string_view groups) { return cgroup_cpus(groups, mounts / "fs"); };
  EXPECT_GT(cpus(""), 1000);
  EXPECT_GT(cpus("0::/gone\n1:cpu:/\n"), 1000);
  write("fs/a/b/cpu.max", "250000 100000\n");
  EXPECT_EQ(cpus("0::/a/b\n"), 3);
  write("fs/a/cpu.max", "max 100000\n");
  EXPECT_EQ(cpus("0::/a/b\n"), 3);
  write("fs/a/cpu.max", "150000 100000\n");
  EXPECT_EQ(cpus("0::/a/b\n"), 2);
  EXPECT_EQ(cpus("0::/a\n"), 2);
  write("fs/cpu.max", "50000 100000\n");
  EXPECT_EQ(cpus("0::/elsewhere"), 1);
  write("fs/cpu/job/cpu.cfs_period_us", "100000\n");
  write("fs/cpu/job/cpu.cfs_quota_us", "-1\n");
  EXPECT_GT(cpus("4:cpu,cpuacct:/job\n3:cpuset:/\n"), 1000);
  write("fs/cpu/job/cpu.cfs_quota_us", "400000\n");
  EXPECT_EQ(cpus("4:cpu,cpuacct:/job\n3:cpuset:/\n"), 4);
  EXPECT_GT(cpus("3:cpuset:/job\n"), 1000);
}

TEST(Cgroup, MemoryOfTheGroupAndOfThoseAboveIt) {
  const test::Scratch mounts;
  const auto write = [&](const std::string& file, std::string_view text) {
    make_directories(mounts / file.substr(0, file.rfind('/')));
    replace_file(mounts / file, text);
  };
  const auto left = [&](std::string_view groups) { return cgroup_memory(groups, mounts / "fs"); };
  constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(left(""), kNoLimit);
  write("fs/a/b/memory.max", "max\n");
  EXPECT_EQ(left("0::/a/b\n"), kNoLimit);
  write("fs/a/memory.max", "1000\n");
  EXPECT_EQ(left("0::/a/b\n"), 1000);
  write("fs/a/memory.current", "300\n");
  EXPECT_EQ(left("0::/a/b\n"), 700);
  // version 1: its number for no limit, then one
  write("fs/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
  write("fs/memory/job/memory.usage_in_bytes", "400\n");
  EXPECT_EQ(left("9:memory:/job\n3:cpuset:/\n"), kNoLimit);
  write("fs/memory/job/memory.limit_in_bytes", "900\n");
  EXPECT_EQ(left("9:memory:/job/below\n3:cpuset:/\n"), 500);
  EXPECT_EQ(left("9:memory:/\n3:cpuset:/job\n"), kNoLimit);
  // in a container, whose own group is the mount
  write("fs/memory/memory.limit_in_bytes", "100\n");
  EXPECT_EQ(left("9:memory:/docker/1\n"), 100);
}

TEST(Random, RandpermIsTorchs) {
  TRL_NEED_GOLDEN("order/cases.json");
  int cases = 0;
  for (const auto& entry : test::golden_json("order/cases.json")["randperm"]) {
    if (!entry.contains("perm")) continue;
    TorchGenerator generator(entry["seed"].get<uint64_t>());
    EXPECT_EQ(Json(randperm(entry["n"].get<int64_t>(), generator)), entry["perm"])
        << entry.dump().substr(0, 80);
    ++cases;
  }
  EXPECT_EQ(cases, 24);
}

// The numbers are Python 3.11's.
TEST(Random, NumbersArePythons) {
  PythonRandom random(42);
  for (const double want :
       {0.6394267984578837, 0.025010755222666936, 0.27502931836911926, 0.22321073814882275})
    EXPECT_EQ(random.random(), want);
  PythonRandom large((uint64_t{1} << 40) + 5);
  for (const double want : {0.5043802970418443, 0.2686044399723282}) EXPECT_EQ(large.random(), want);
}

TEST(Random, SamplesArePythons) {
  struct Case {
    uint64_t seed;
    std::vector<size_t> eight, hundred, thousand;
  };
  for (const Case& c : {Case{42, {1, 0, 5}, {17, 94, 13}, {692, 758, 913, 558}},
                        Case{0, {6, 7, 3}, {62, 51, 38}, {991, 488, 366, 597}},
                        Case{(uint64_t{1} << 40) + 7, {7, 2, 4}, {66, 92, 46}, {402, 453, 460, 884}}}) {
    PythonRandom random(c.seed);
    EXPECT_EQ(random.sample(8, 3), c.eight) << c.seed;
    random.sample(8, 3);
    EXPECT_EQ(random.sample(100, 3), c.hundred) << c.seed;
    EXPECT_EQ(random.sample(1000, 4), c.thousand) << c.seed;
  }
  const std::vector<size_t> many = {2,  18, 13, 1, 0, 29, 6,  7,  16, 19, 25, 17, 23,
                                    27, 22, 15, 9, 4, 20, 24, 28, 5,  12, 26, 21};
  PythonRandom random(42);
  for (const auto& [size, count] : {std::pair{8, 3}, {8, 3}, {100, 3}, {1000, 4}}) random.sample(size, count);
  EXPECT_EQ(random.sample(30, 25), many);
}

// Recorded from NumPy 2.4 after numpy.random.seed(7).
TEST(Random, PermutationIsNumPys) {
  TorchGenerator generator(7);
  const std::vector<std::vector<int64_t>> recorded = {
      {0},
      {0, 1},
      {0, 3, 2, 1, 4},
      {1, 2, 5, 15, 0, 4, 6, 10, 11, 8, 13, 9, 12, 14, 7, 3},
      {13, 15, 22, 28, 30, 27, 1,  20, 10, 8, 32, 3,  7, 18, 17, 4, 29,
       14, 9,  2,  0,  16, 21, 31, 25, 24, 5, 12, 19, 6, 26, 23, 11}};
  for (const std::vector<int64_t>& own : recorded)
    EXPECT_EQ(numpy_permutation(std::ssize(own), generator), own);
  EXPECT_TRUE(numpy_permutation(0, generator).empty());
  EXPECT_EQ(generator.random32(), 1599380060U);  // draws as many numbers
}

}  // namespace
}  // namespace trl::base
