// How much memory prepared rows take: 4 bytes and 1 bit a token, 24 bytes a row, and what is kept free at the
// end.
#include "data/example_store.h"

#include <gtest/gtest.h>

namespace trl::data {
namespace {

Tokens row_of(int64_t length, int32_t first) {
  Tokens tokens;
  for (int64_t i = 0; i < length; ++i) {
    tokens.ids.push_back(first + static_cast<int32_t>(i));
    tokens.labels.push_back(i % 3 == 0 ? kIgnored : tokens.ids.back());
  }
  return tokens;
}

TEST(ExampleStore, holds_four_bytes_a_token) {
  base::MemoryCounter memory;
  {
    ExampleStore store(memory);
    for (int32_t row = 0; row < 5000; ++row) store.add(row_of(900 + row % 200, row), row);
    const double bytes = static_cast<double>(memory.now(base::MemoryKind::data));
    const double tokens = static_cast<double>(store.total_tokens());
    EXPECT_GE(bytes, 4.125 * tokens);
    EXPECT_LE(bytes, 4.75 * tokens);
    const auto [ids, length] = store.input_ids(4999);
    EXPECT_EQ(length, 900 + 4999 % 200);
    EXPECT_EQ(ids[0], 4999);
    std::vector<int32_t> labels(static_cast<size_t>(length));
    store.copy_labels(4999, labels.data());
    EXPECT_EQ(labels[0], kIgnored);
    EXPECT_EQ(labels[1], 5000);
  }
  EXPECT_EQ(memory.now(), 0);
}

}  // namespace
}  // namespace trl::data
