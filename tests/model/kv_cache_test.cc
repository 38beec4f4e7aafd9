#include "model/kv_cache.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tensor/counting_host.h"
#include "tensor/memory/counted.h"

namespace trl::model {
namespace {

class Cache : public testing::Test {
 protected:
  Cache() {
    cache_.first_rows = 3;
    cache_.layers.resize(4);
    tensor::set_host(&host_);
  }
  ~Cache() override {
    cache_ = {};
    tensor::set_host(nullptr);
  }
  void reserve(int64_t more, at::ScalarType type = at::kFloat) { cache_.reserve(more, 2, 8, type, at::kCPU); }
  // Of a layer, at the next positions: rows that say where they are.
  void append(int64_t tokens) {
    reserve(tokens);
    for (size_t i = 0; i < cache_.layers.size(); ++i) {
      const at::Tensor row = at::arange(cache_.length, cache_.length + tokens, at::kFloat).view({-1, 1, 1});
      const at::Tensor keys = (row + static_cast<double>(1000 * i)).expand({tokens, 2, 8}).contiguous();
      cache_.layers[i].write(cache_.length, keys, -keys);
    }
    cache_.length += tokens;
  }
  void expect_all_kept() const {
    for (size_t i = 0; i < cache_.layers.size(); ++i) {
      int64_t position = 0;
      for (const kernels::KeyValues& page : cache_.layers[i].pages) {
        for (int64_t row = 0; row < page.keys.size(0) && position < cache_.length; ++row, ++position) {
          const double want = static_cast<double>(position) + 1000.0 * static_cast<double>(i);
          EXPECT_TRUE(page.keys[row].eq(want).all().item<bool>()) << i << " " << position;
          EXPECT_TRUE(page.values[row].eq(-want).all().item<bool>()) << i << " " << position;
        }
      }
      EXPECT_EQ(position, cache_.length);
    }
  }
  test::CountingHost host_;
  KvCache cache_;
};

TEST_F(Cache, GrowsByPagesWithoutMovingWhatItHolds) {
  append(2);
  EXPECT_EQ(cache_.capacity, 3);
  const void* const first = cache_.layers[2].pages[0].keys.data_ptr();
  append(1);
  append(300);
  append(1);
  append(600);
  EXPECT_EQ(cache_.layers[2].pages.size(), 4u);
  EXPECT_EQ(cache_.layers[2].pages[0].keys.data_ptr(), first);
  expect_all_kept();
}

TEST_F(Cache, WithoutMemoryItStaysAsItWas) {
  for (const int64_t held : {0, 3}) {
    if (held > 0) append(held);
    const int64_t capacity = cache_.capacity, bytes = host_.counter.now();
    for (int64_t charge = 0;; ++charge) {
      ASSERT_LT(charge, 100);
      host_.charges = 0;
      host_.refuse_from = charge;
      bool made = true;
      try {
        reserve(5);
      } catch (const Error& error) {
        EXPECT_EQ(error.status(), Status::out_of_memory);
        made = false;
      }
      if (made) break;
      EXPECT_EQ(cache_.capacity, capacity);
      EXPECT_EQ(host_.counter.now(), bytes);
      for (const LayerCache& layer : cache_.layers) EXPECT_EQ(layer.pages.size(), held > 0 ? 1u : 0u);
    }
    host_.refuse_from = INT64_MAX;
    append(5);
    expect_all_kept();
    cache_.layers.assign(4, {});
    cache_.length = cache_.capacity = 0;
  }
}

TEST_F(Cache, HasOneTypeOnceItHoldsSomething) {
  reserve(2, at::kFloat);
  reserve(2, at::kBFloat16);
  EXPECT_EQ(cache_.layers[0].pages.size(), 1u);
  EXPECT_EQ(cache_.layers[0].pages[0].keys.scalar_type(), at::kBFloat16);
  cache_.length = 1;
  EXPECT_THROW(reserve(1, at::kFloat), Error);
}

}  // namespace
}  // namespace trl::model
