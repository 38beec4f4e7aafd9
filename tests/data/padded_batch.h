// The layout of TRL's padded collators, which the recorded batches have.
#pragma once
#include <algorithm>
#include <span>
#include <vector>

#include "data/prepare/example.h"

namespace trl::data {

// The batch in the layout of TRL's padded collator: [rows, width], right padding. documents of one row (a
// packed one) follow each other. row_lengths: tokens of each row.
struct PaddedBatch {
  int64_t rows = 0, width = 0;
  std::vector<int32_t> input_ids, labels, attention_mask;
};
inline PaddedBatch pad(std::span<const Example> examples, int32_t pad_id, int64_t pad_to_multiple_of = 1) {
  PaddedBatch out;
  out.rows = static_cast<int64_t>(examples.size());
  for (const Example& example : examples) out.width = std::max(out.width, std::ssize(example.input_ids));
  out.width = (out.width + pad_to_multiple_of - 1) / pad_to_multiple_of * pad_to_multiple_of;
  const auto cells = static_cast<size_t>(out.rows * out.width);
  out.input_ids.assign(cells, pad_id);
  out.labels.assign(cells, kIgnored);
  out.attention_mask.assign(cells, 0);
  auto cell = std::ptrdiff_t{0};
  for (const Example& example : examples) {
    std::copy(example.input_ids.begin(), example.input_ids.end(), out.input_ids.begin() + cell);
    std::copy(example.labels.begin(), example.labels.end(), out.labels.begin() + cell);
    std::fill_n(out.attention_mask.begin() + cell, std::ssize(example.input_ids), 1);
    cell += out.width;
  }
  return out;
}

// For either layout.
inline std::vector<uint8_t> completion_mask(std::span<const int32_t> labels) {
  std::vector<uint8_t> mask(labels.size());
  std::transform(labels.begin(), labels.end(), mask.begin(),
                 [](int32_t label) -> uint8_t { return label == kIgnored ? 0 : 1; });
  return mask;
}

}  // namespace trl::data
