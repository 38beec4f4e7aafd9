// Makes one micro-batch: concatenates the rows' tokens, and computes the sizes that TRL's collators would
// give them.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "data/batch/batch.h"
#include "data/prepare/example.h"

namespace trl::data {

// TRL's layout of the batch. Nothing here is padded; the layout decides which tokens are counted and trained.
struct BatchLayout {
  // The batch is one row, and the first token of each document trains nothing.
  bool padding_free = false;
  int64_t pad_to_multiple_of = 1;
  int32_t pad_id = -1;
};

// Fills `out`. Examples without tokens are left out.
void collate(std::span<const Example> examples, const BatchLayout& layout, Batch& out);

}  // namespace trl::data
