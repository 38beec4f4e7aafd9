// A batch against TRL's padding-free layout: one row, and behind it padding of which every token is a
// document.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/json/json.h"
#include "data/batch/collate.h"

namespace trl::data {

inline int64_t longest_segment(const Batch& batch) {
  int64_t longest = 0;
  for (size_t i = 1; i < batch.cu_seqlens.size(); ++i)
    longest = std::max<int64_t>(longest, batch.cu_seqlens[i] - batch.cu_seqlens[i - 1]);
  return longest;
}

// The values of all rows, one row behind the other.
inline std::vector<int32_t> flat(const base::Json& rows) {
  std::vector<int32_t> out;
  for (const base::Json& row : rows) {
    for (const base::Json& value : row) out.push_back(value);
  }
  return out;
}

inline void expect_flat(const Batch& batch, int32_t pad_id, const base::Json& want) {
  std::vector<int32_t> ids = batch.input_ids, labels = batch.labels, positions = batch.position_ids;
  std::vector<int32_t> borders = batch.cu_seqlens, documents;
  ids.resize(static_cast<size_t>(batch.width), pad_id);
  labels.resize(static_cast<size_t>(batch.width), kIgnored);
  positions.resize(static_cast<size_t>(batch.width), 0);
  while (borders.back() < batch.width) borders.push_back(borders.back() + 1);
  for (size_t i = 1; i < borders.size(); ++i) {
    documents.insert(documents.end(), static_cast<size_t>(borders[i] - borders[i - 1]),
                     static_cast<int32_t>(i - 1));
  }
  EXPECT_EQ(ids, want["input_ids"][0].get<std::vector<int32_t>>());
  EXPECT_EQ(labels, want["labels"][0].get<std::vector<int32_t>>());
  EXPECT_EQ(positions, want["position_ids"][0].get<std::vector<int32_t>>());
  EXPECT_EQ(borders, want["cu_seq_lens_q"].get<std::vector<int32_t>>());
  EXPECT_EQ(documents, want["seq_idx"][0].get<std::vector<int32_t>>());
  EXPECT_EQ(longest_segment(batch), want["max_length_q"].get<int64_t>());
  EXPECT_EQ(batch.input_numel, batch.width);
  EXPECT_EQ(batch.num_tokens, batch.width);
}

}  // namespace trl::data
