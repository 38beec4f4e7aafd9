// Memory of blocks: allocated by slabs when used, counted, given back as soon as no block in them is used.
#include "model/decoding/kv_memory.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/memory/system_memory.h"
#include "tensor/counting_host.h"
#include "tensor/memory/counted.h"

namespace trl::model {
namespace {

KvMemory small(int64_t layers = 2) { return {layers, {2, 16, at::kFloat}, at::kCPU}; }

bool none(int32_t) { return false; }

class KvMemoryTest : public testing::Test {
 protected:
  KvMemoryTest() { tensor::set_host(&host_); }
  ~KvMemoryTest() override { tensor::set_host(nullptr); }
  int64_t counted() const { return host_.counter.now(); }
  test::CountingHost host_;
};

TEST_F(KvMemoryTest, IsAllocatedWhenABlockIsFirstUsed) {
  KvMemory memory = small();
  EXPECT_EQ(memory.bytes(), 0);
  EXPECT_EQ(memory.block_bytes(), 2 * 2 * kernels::kCacheRows * 2 * 16 * 4);
  EXPECT_FALSE(memory.has(0));
  memory.block(0);
  const int64_t slab = memory.bytes();
  EXPECT_TRUE(memory.has(static_cast<int32_t>(slab / memory.block_bytes()) - 1));
  EXPECT_FALSE(memory.has(static_cast<int32_t>(slab / memory.block_bytes())));
  EXPECT_EQ(slab % memory.block_bytes(), 0);
  EXPECT_LE(slab, int64_t{4} << 20);
  EXPECT_EQ(counted(), slab);
  memory.block(1);
  EXPECT_EQ(memory.bytes(), slab);
  memory.block(static_cast<int32_t>(slab / memory.block_bytes()));
  EXPECT_EQ(memory.bytes(), 2 * slab);
}

TEST_F(KvMemoryTest, BlocksStayWhereTheyAreAndDoNotOverlap) {
  KvMemory memory = small();
  std::vector<at::Tensor> blocks;
  for (int32_t id = 0; id < 200; ++id) {
    blocks.push_back(memory.block(id));
    blocks.back().fill_(id);
  }
  for (int32_t id = 0; id < 200; ++id) {
    EXPECT_EQ(memory.block(id).data_ptr(), blocks[static_cast<size_t>(id)].data_ptr());
    EXPECT_TRUE((memory.block(id) == id).all().item<bool>()) << id;
  }
}

TEST_F(KvMemoryTest, ABlockLargerThanASlabHasItsOwn) {
  KvMemory memory = small(300);
  memory.block(0);
  EXPECT_EQ(memory.bytes(), memory.block_bytes());
}

TEST_F(KvMemoryTest, GivesBackEverySlabWithoutAUsedBlock) {
  KvMemory memory = small();
  memory.block(0);
  const int64_t slab = memory.bytes();
  const auto in_slab = static_cast<int32_t>(slab / memory.block_bytes());
  const int64_t others = counted() - slab;
  for (const int32_t place : {1, 2, 4}) memory.block(place * in_slab + 1).fill_(place);
  EXPECT_EQ(memory.bytes(), 4 * slab);  // the slab between is not used
  const void* const kept = memory.block(2 * in_slab + 1).data_ptr();
  EXPECT_EQ(memory.release([&](int32_t id) { return id == 2 * in_slab + 1; }), 3 * slab);
  EXPECT_EQ(memory.bytes(), slab);
  tensor::trim();
  EXPECT_EQ(counted(), others + slab);
  EXPECT_EQ(memory.block(2 * in_slab + 1).data_ptr(), kept);
  EXPECT_TRUE((memory.block(2 * in_slab + 1) == 2).all().item<bool>());
  memory.block(0).fill_(1);  // is allocated again
  EXPECT_EQ(memory.bytes(), 2 * slab);
  EXPECT_EQ(memory.release([](int32_t) { return true; }), 0);
  EXPECT_EQ(memory.release(none), 2 * slab);
  EXPECT_EQ(memory.bytes(), 0);
}

TEST_F(KvMemoryTest, IntegersTakeABytePerElementAndAScale) {
  const KvMemory memory(2, {2, 16, at::kFloat, true}, at::kCPU);
  EXPECT_TRUE(memory.int8());
  EXPECT_EQ(memory.block_bytes(), 2 * 2 * kernels::kCacheRows * 2 * (16 + 4));
}

// The pages go back to the system, and blocks that are used again take no more than their slabs.
TEST_F(KvMemoryTest, ReleasedPagesAreNotResident) {
  constexpr int64_t kMegabyte = int64_t{1} << 20;
  KvMemory memory = small(64);
  const auto touch = [&](int64_t bytes) {
    for (int32_t id = 0; id * memory.block_bytes() < bytes; ++id) memory.block(id).fill_(1);
  };
  touch(kMegabyte);
  memory.release(none);
  tensor::trim();
  const int64_t before = base::resident_bytes();
  touch(128 * kMegabyte);
  EXPECT_GT(base::resident_bytes() - before, 120 * kMegabyte);
  memory.release(none);
  tensor::trim();
  EXPECT_LT(base::resident_bytes() - before, 8 * kMegabyte);
  touch(kMegabyte);
  EXPECT_LT(base::resident_bytes() - before, 16 * kMegabyte);
}

TEST_F(KvMemoryTest, WhatDoesNotFitLeavesAllAsItWas) {
  KvMemory memory = small();
  memory.block(0).fill_(7);
  const int64_t bytes = memory.bytes();
  host_.counter.set_limit(counted());
  EXPECT_THROW(memory.block(500), Error);
  host_.counter.set_limit(0);
  EXPECT_EQ(memory.bytes(), bytes);
  EXPECT_TRUE((memory.block(0) == 7).all().item<bool>());
  memory.block(500);
  EXPECT_EQ(memory.bytes(), 2 * bytes);
}

}  // namespace
}  // namespace trl::model
