// The engine's own copy of a micro-batch: the source's views are valid until its next call only, and a step
// that failed is tried again with the same rows.
#pragma once
#include <ATen/ATen.h>

#include <map>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "train/targets.h"

namespace trl::train {

// Or a part of one (batch_parts.h), of which only the first five members are its own.
struct MicroBatch {
  at::Tensor input_ids;     // int32 [tokens]
  at::Tensor position_ids;  // int32 [tokens]
  Targets targets;
  kernels::SegmentsPtr segments;
  int64_t first = 0;  // of a part: the place of its first token in the whole
  int64_t reach = 0;  // the last position, plus 1
  std::vector<int64_t> row_ids;
  int64_t rows = 0;
  int64_t width = 0;     // of TRL's input_ids, whose padding is not here
  int64_t elements = 0;  // of TRL's input_ids
  int64_t labels = 0;    // that are not -100, of all sequences, the first of each too
  int64_t counted_tokens = 0;
  int64_t real_tokens = 0;    // that are not padding to Trainer
  int64_t shared_tokens = 0;  // of several rows, which are here once: how many times more (sharing.h)
  std::vector<int32_t> sequence_labels;  // of each sequence, how many of its tokens have a label
  std::vector<int32_t> sequence_tokens;  // of each, how many there are
  std::map<std::string, std::vector<float>, std::less<>> columns;  // of the sequences
  std::vector<int32_t> ends;  // the last segment of each sequence; empty: each segment is a sequence
  int64_t sequences() const { return std::ssize(sequence_labels); }
};

// Copies; ids outside [0, vocab_size) and borders that are not increasing are Error(invalid_argument).
MicroBatch copy_batch(const engine::Batch& batch, int64_t vocab_size);

}  // namespace trl::train
