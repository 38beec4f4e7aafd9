// Makes one micro-batch: concatenates the rows' tokens, and computes the sizes that TRL's collators would
// give them.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "data/prepare/example.h"

namespace trl::data {

// TRL's layout of the batch. Nothing here is padded; the layout decides which tokens are counted and trained.
struct BatchLayout {
  bool padding_free = false;  // the first token of each document trains nothing; the batch is one row
  int64_t pad_to_multiple_of = 1;
  int32_t pad_id = -1;
};

// A batch without padding; its fields are those of engine::Batch.
struct HostBatch {
  std::vector<int32_t> input_ids, labels, position_ids, cu_seqlens;
  std::vector<int64_t> row_ids;
  int64_t max_length = 0;                   // longest document
  int64_t rows = 0;                         // prepared rows
  int64_t width = 0;                        // width of TRL's input_ids, padding included
  int64_t elements = 0;                     // elements of TRL's input_ids
  int64_t counted_tokens = 0;               // num_tokens
  int64_t real_tokens = 0;                  // tokens that Trainer does not take for padding
  std::vector<int32_t> parents, sequences;  // or empty
  std::vector<std::pair<std::string_view, std::vector<float>>> columns;  // by sequence
};
// Fills `out`. Examples without tokens are left out.
void collate(std::span<const Example> examples, const BatchLayout& layout, HostBatch& out);

// The batch in the layout of TRL's padded collator: [rows, width], right padding. documents of one row (a
// packed one) follow each other. row_lengths: tokens of each row.
struct PaddedBatch {
  int64_t rows = 0, width = 0;
  std::vector<int32_t> input_ids, labels, attention_mask;
};
PaddedBatch pad(std::span<const Example> examples, int32_t pad_id, int64_t pad_to_multiple_of = 1);

}  // namespace trl::data
