#include "tensor/memory/counted.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include <cstring>
#include <random>
#include <thread>

#include "base/error.h"
#include "support/no_memory.h"
#include "tensor/counting_host.h"
#include "tensor/memory/block_pool.h"
#include "tensor/threads/parallel.h"

namespace trl::tensor {
namespace {

using test::CountingHost;

class Counted : public testing::Test {
 protected:
  void SetUp() override { set_host(&host_); }
  void TearDown() override {
    EXPECT_EQ(host_.counter.now(), 0);
    set_host(nullptr);
  }
  base::MemoryCounter& counter() { return host_.counter; }
  CountingHost host_;
};

constexpr int64_t kMiB = int64_t{1} << 20;

TEST_F(Counted, ChargesItsKindAndReleasesIt) {
  {
    const at::Tensor x = zeros({3, 5}, at::kFloat, MemoryKind::weights);
    EXPECT_EQ(counter().now(MemoryKind::weights), 64);
    EXPECT_EQ(x.sum().item<float>(), 0.0f);
    EXPECT_TRUE(x.is_contiguous());
    EXPECT_FALSE(x.requires_grad());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(x.data_ptr()) % 64, 0u);
    const at::Tensor view = x.narrow(0, 1, 2);
    const at::Tensor big = empty({2, kMiB}, at::kBFloat16, MemoryKind::gradients);
    EXPECT_EQ(counter().now(MemoryKind::gradients), 4 * kMiB);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(big.data_ptr()) % (2 * kMiB), 0u);
    EXPECT_EQ(empty_like(view, MemoryKind::data).sizes(), view.sizes());
    EXPECT_EQ(empty({}, at::kFloat, MemoryKind::data).numel(), 1);
    EXPECT_EQ(empty({0, 4}, at::kFloat, MemoryKind::data).numel(), 0);
  }
  EXPECT_EQ(counter().now(), 0);
}

TEST_F(Counted, ALimitIsAnErrorAndLaterUseWorks) {
  counter().set_limit(4 * kMiB);
  {
    const at::Tensor held = empty({2 * kMiB}, at::kByte, MemoryKind::weights);
    try {
      empty({3 * kMiB}, at::kByte, MemoryKind::activations);
      FAIL() << "the limit was passed";
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::out_of_memory);
      EXPECT_EQ(error.key(), "runtime.host_memory_limit");
      EXPECT_EQ(
          error.message(),
          "runtime.host_memory_limit: 3145728 bytes of activations do not fit: 2097152 bytes in use, limit "
          "4194304 bytes");
    }
    EXPECT_EQ(counter().now(), 2 * kMiB);
    EXPECT_EQ(empty({2 * kMiB}, at::kByte, MemoryKind::activations).numel(), 2 * kMiB);
  }
}

TEST_F(Counted, ImpossibleSizesAreErrors) {
  EXPECT_THROW(empty({int64_t{1} << 40, int64_t{1} << 40}, at::kFloat, MemoryKind::data), Error);
  EXPECT_THROW(empty({-1}, at::kFloat, MemoryKind::data), Error);
  EXPECT_THROW(empty({int64_t{1} << 60}, at::kByte, MemoryKind::data), Error);
}

TEST_F(Counted, FreedBlocksAreReusedAndNeverRaiseThePeak) {
  const at::Tensor held = empty({kMiB}, at::kByte, MemoryKind::weights);
  void* first = nullptr;
  {
    const at::Tensor x = empty({4 * kMiB}, at::kByte, MemoryKind::activations);
    first = x.data_ptr();
  }
  EXPECT_EQ(counter().now(MemoryKind::activations), 0);
  EXPECT_EQ(counter().now(MemoryKind::workspace), 4 * kMiB);  // kept, and said so
  {
    const at::Tensor again = empty({4 * kMiB}, at::kByte, MemoryKind::workspace);
    EXPECT_EQ(again.data_ptr(), first);
    EXPECT_EQ(counter().now(), 5 * kMiB);
  }
  {
    const at::Tensor larger =
        empty({5 * kMiB}, at::kByte, MemoryKind::activations);  // does not fit the kept block
    EXPECT_EQ(counter().now(), 6 * kMiB);
  }
  EXPECT_EQ(counter().peak(), 6 * kMiB);
  trim();
  EXPECT_EQ(counter().now(), kMiB);
}

TEST_F(Counted, KeptBlocksGiveWayToTheLimit) {
  counter().set_limit(6 * kMiB);
  const at::Tensor held = empty({kMiB}, at::kByte, MemoryKind::weights);
  { const at::Tensor x = empty({4 * kMiB}, at::kByte, MemoryKind::activations); }
  EXPECT_EQ(counter().now(), 5 * kMiB);
  EXPECT_EQ(empty({5 * kMiB}, at::kByte, MemoryKind::weights).numel(), 5 * kMiB);
}

TEST_F(Counted, ManyThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 200; ++i) {
        const at::Tensor x = empty({(t + 1) * 50000 + i}, at::kFloat, MemoryKind::activations);
        x.data_ptr<float>()[0] = 1.0f;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// So much is charged while they are out, whatever came before.
TEST(BlockPool, BlocksOfManySizesTakeWhatTheyAskFor) {
  CountingHost host;
  BlockPool pool;
  pool.set_host(&host);
  const Block held = pool.take(256 << 10, MemoryKind::weights);  // so that the store lasts
  std::mt19937 random(7);
  std::uniform_int_distribution<int64_t> pages(32, 2000);
  int64_t most = 0;
  for (int round = 0; round < 100; ++round) {
    std::vector<Block> blocks;
    int64_t used = held.bytes;
    for (int i = 0; i < 30; ++i) {
      const int64_t bytes = 4096 * pages(random);
      blocks.push_back(pool.take(bytes, i % 2 == 0 ? MemoryKind::activations : MemoryKind::gradients));
      ASSERT_EQ(blocks.back().bytes, bytes);
      char* const data = static_cast<char*>(blocks.back().data);
      data[0] = data[bytes - 1] = static_cast<char>(i);
      used += bytes;
    }
    EXPECT_EQ(host.counter.now(MemoryKind::activations) + host.counter.now(MemoryKind::gradients),
              used - held.bytes);
    most = std::max(most, used);
    std::shuffle(blocks.begin(), blocks.end(), random);
    for (const Block& block : blocks) {
      const auto* const data = static_cast<const char*>(block.data);
      EXPECT_EQ(data[0], data[block.bytes - 1]);
      pool.give(block);
    }
    EXPECT_LE(host.counter.now(), most);
  }
  EXPECT_EQ(host.counter.peak(), most);
  pool.give(held);
  EXPECT_EQ(host.counter.now(), 0);
}

TEST(BlockPool, ALargerBlockIsCutAndIsWholeAgain) {
  BlockPool pool;
  const Block held = pool.take(4 * kMiB, MemoryKind::weights), whole = pool.take(4 * kMiB, MemoryKind::data);
  pool.give(whole);
  const Block first = pool.take(kMiB, MemoryKind::workspace), second = pool.take(2 * kMiB, MemoryKind::data);
  EXPECT_EQ(first.data, whole.data);
  EXPECT_EQ(second.data, static_cast<char*>(whole.data) + kMiB);
  pool.give(first);
  pool.give(second);
  const Block again = pool.take(4 * kMiB, MemoryKind::activations);
  EXPECT_EQ(again.data, whole.data);
  EXPECT_FALSE(again.zero);
  pool.give(again);
  pool.give(held);
}

TEST(BlockPool, AfterATrimNoMoreIsStoredThanWasInUseSince) {
  CountingHost host;
  BlockPool pool;
  pool.set_host(&host);
  const Block held = pool.take(kMiB, MemoryKind::weights);
  pool.give(pool.take(32 * kMiB, MemoryKind::activations));
  EXPECT_EQ(host.counter.now(), 33 * kMiB);
  pool.trim();
  EXPECT_EQ(host.counter.now(), kMiB);
  for (int i = 1; i <= 8; ++i) pool.give(pool.take(i * kMiB, MemoryKind::activations));
  EXPECT_LE(host.counter.now(), 9 * kMiB);
  pool.give(held);
}

// The place in the store is made when a block is taken.
TEST(BlockPool, ABlockIsGivenBackWithoutMemory) {
  BlockPool pool;
  std::vector<Block> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(pool.take(256 << 10, MemoryKind::activations));
  {
    const test::NoMemory none;
    for (const Block& block : blocks) pool.give(block);
  }
  EXPECT_NE(pool.take(256 << 10, MemoryKind::activations).data, nullptr);
}

TEST(BlockPool, WithoutMemoryNothingIsTaken) {
  CountingHost host;
  BlockPool pool;
  pool.set_host(&host);
  {
    const test::NoMemory none;
    EXPECT_THROW(pool.take(256 << 10, MemoryKind::activations), std::bad_alloc);
  }
  EXPECT_EQ(host.counter.now(), 0);
  pool.give(pool.take(256 << 10, MemoryKind::activations));
  EXPECT_EQ(host.counter.now(), 0);
  set_host(&host);
  {
    const test::NoMemory none;
    EXPECT_THROW(empty({256 << 10}, at::kByte, MemoryKind::activations), std::bad_alloc);
  }
  EXPECT_EQ(host.counter.now(), 0);
  set_host(nullptr);
}

struct Greedy : torch::autograd::Function<Greedy> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return x.clone(); }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext*,
                                               torch::autograd::tensor_list grads) {
    empty({64 * kMiB}, at::kByte, MemoryKind::activations);
    return grads;
  }
};

TEST_F(Counted, AnErrorInBackwardArrivesAsItself) {
  const at::Tensor x = at::ones({3}).requires_grad_();
  counter().set_limit(kMiB);
  try {
    Greedy::apply(x).sum().backward();
    FAIL() << "the limit was passed";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::out_of_memory);
  }
  counter().set_limit(0);
  Greedy::apply(x).sum().backward();
  EXPECT_EQ(x.grad().sum().item<float>(), 3.0f);
}

TEST(Parallel, CoversEachIndexOnceForAnyWidth) {
  const int before = threads();
  for (const int width : {1, 2, 7}) {
    set_threads(width);
    EXPECT_EQ(threads(), width);
    for (const int64_t count : {0, 1, 5, 1000}) {
      std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
      parallel_for(count, 3, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
      });
      for (const auto& n : seen) EXPECT_EQ(n.load(), 1);
    }
  }
  set_threads(0);
  EXPECT_GE(threads(), 1);
  set_threads(before);
}

}  // namespace
}  // namespace trl::tensor
