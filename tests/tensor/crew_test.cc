#include "tensor/threads/crew.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <set>
#include <thread>

namespace trl::tensor {
namespace {

int threads_of_process() {
  int count = 0;
  for ([[maybe_unused]] const auto& task : std::filesystem::directory_iterator("/proc/self/task")) ++count;
  return count;
}

// The system lists a thread for a moment after it was joined.
int threads_down_to(int expected) {
  for (int i = 0; i < 200 && threads_of_process() > expected; ++i) ::usleep(10000);
  return threads_of_process();
}

double processor_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Each part waits for all others, so they run at the same time.
TEST(Crew, PartsRunAtTheSameTime) {
  for (const int count : {3, 5, 2, 1}) {
    std::barrier together(count);
    std::atomic<int> sum{0};
    on_crew(count, [&](int64_t i) {
      together.arrive_and_wait();
      sum += static_cast<int>(i);
    });
    EXPECT_EQ(sum, count * (count - 1) / 2);
  }
}

TEST(Crew, ManyRegionsFollowEachOther) {
  int64_t sum = 0;
  for (int round = 0; round < 20000; ++round) {
    int64_t parts[4] = {};
    on_crew(4, [&](int64_t i) { parts[i] = i + round; });
    for (const int64_t part : parts) sum += part;
  }
  EXPECT_EQ(sum, int64_t{4} * 20000 * 19999 / 2 + 6 * 20000);
}

TEST(Crew, ARegionWithinAPartIsItsThreadsOwn) {
  std::atomic<int> wrong{0};
  on_crew(2, [&](int64_t) {
    const std::thread::id own = std::this_thread::get_id();
    int64_t next = 0;
    on_crew(3, [&](int64_t i) { wrong += std::this_thread::get_id() != own || i != next++; });
    wrong += next != 3;
  });
  EXPECT_EQ(wrong, 0);
}

TEST(Crew, SleepsBetweenRegions) {
  double spent = 0;
  for (int round = 0; round < 5; ++round) {
    on_crew(2, [](int64_t) {});
    const double before = processor_seconds();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    spent += processor_seconds() - before;
  }
  EXPECT_LT(spent, 0.005);
}

TEST(Crew, EndsWithItsThread) {
  end_crew();
  ::usleep(100000);  // those of other tests that have ended
  const int before = threads_of_process();
  std::thread([before] {
    on_crew(4, [](int64_t) {});
    EXPECT_EQ(threads_of_process(), before + 4);
  }).join();
  EXPECT_EQ(threads_down_to(before), before);
  on_crew(3, [](int64_t) {});
  EXPECT_EQ(threads_of_process(), before + 2);
  end_crew();
  EXPECT_EQ(threads_down_to(before), before);
}

// A child has none of the threads; it ends without waiting for them.
TEST(Crew, AForkedChildCanExit) {
  on_crew(3, [](int64_t) {});
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(20);
    end_crew();
    ::_exit(7);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
}

}  // namespace
}  // namespace trl::tensor
