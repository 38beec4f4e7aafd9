// One micro-batch: the rows' tokens one after the other, and what TRL's collators make of the same rows.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "data/prepare/example.h"

namespace trl::data {

// How TRL would lay the batch out. Nothing here is padded; the layout decides what is counted and trained.
struct BatchLayout {
  bool padding_free = false;  // the first token of each document trains nothing; the batch is one row
  int64_t pad_to_multiple_of = 1;
  int32_t pad_id = -1;
};

// Without padding (see engine::Batch, whose fields these are).
struct HostBatch {
  std::vector<int32_t> input_ids, labels, position_ids, cu_seqlens;
  std::vector<int64_t> row_ids;
  int64_t max_length = 0;                   // longest document
  int64_t rows = 0;                         // prepared ones
  int64_t width = 0;                        // of TRL's input_ids, padding included
  int64_t elements = 0;                     // of TRL's input_ids
  int64_t counted_tokens = 0;               // what num_tokens counts
  int64_t real_tokens = 0;                  // what Trainer takes for no padding
  std::vector<int32_t> parents, sequences;  // or none
  std::vector<std::pair<std::string_view, std::vector<float>>> columns;  // of the sequences
};
// Examples of no tokens are left out.
void collate(std::span<const Example> examples, const BatchLayout& layout, HostBatch& out);

// The batch as TRL's padded collator lays it out: [rows, width], right padding. documents of one row (a
// packed one) follow each other. row_lengths: tokens of each row.
struct PaddedBatch {
  int64_t rows = 0, width = 0;
  std::vector<int32_t> input_ids, labels, attention_mask;
};
PaddedBatch pad(std::span<const Example> examples, int32_t pad_id, int64_t pad_to_multiple_of = 1);

}  // namespace trl::data
