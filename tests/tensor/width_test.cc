// The threads that each of two computing threads has.
#include "tensor/threads/width.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <tuple>

#include "tensor/threads/parallel.h"

namespace trl::tensor {
namespace {

int threads_elsewhere() {
  int found = 0;
  std::thread([&] { found = threads(); }).join();
  return found;
}

// Waits until the threads that were lent are back.
void settle() { std::this_thread::sleep_for(std::chrono::milliseconds(30)); }

TEST(Width, IsSharedWhileSomebodyServes) {
  set_threads(4);
  {
    const WidthScope half(0.5);
    EXPECT_EQ(threads(), 2);
    EXPECT_EQ(threads_elsewhere(), 2);
    EXPECT_EQ(all_threads(), 4);
  }
  EXPECT_LE(threads_elsewhere(), 4);
  settle();
  EXPECT_EQ(threads(), 4);
  EXPECT_EQ(threads_elsewhere(), 4);
  set_threads(0);
}

TEST(Width, LeavesEachAtLeastOne) {
  for (const auto& [all, share, own, rest] :
       {std::tuple{4, 0.01, 1, 3}, {4, 0.99, 3, 1}, {2, 0.5, 1, 1}, {1, 0.5, 1, 1}}) {
    set_threads(all);
    {
      const WidthScope scope(share);
      EXPECT_EQ(threads(), own) << all;
      EXPECT_EQ(threads_elsewhere(), rest) << all;
    }
    settle();
    EXPECT_EQ(threads_elsewhere(), all);
  }
  set_threads(0);
}

TEST(Width, APartOfALoopIsNotSplit) {
  set_threads(2);
  std::atomic<int64_t> sum{0};
  const WidthScope scope(0.5);
  parallel_for(100, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
  EXPECT_EQ(sum, 100);
  set_threads(0);
}

}  // namespace
}  // namespace trl::tensor
