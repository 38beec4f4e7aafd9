// The engine's copy of a micro-batch: the source's views are valid only until its next call, and a step that
// failed is tried again with the same rows.
#pragma once
#include <ATen/ATen.h>

#include <map>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "train/targets.h"

namespace trl::train {

// A micro-batch, or a part of one (batch_parts.h) with only the first five members cut to it.
struct MicroBatch {
  at::Tensor input_ids;     // int32 [tokens]
  at::Tensor position_ids;  // int32 [tokens]
  Targets targets;
  kernels::SegmentsPtr segments;
  int64_t first = 0;  // in a part: the place of its first token in the whole
  int64_t reach = 0;  // the last position plus 1
  std::vector<int64_t> row_ids;
  int64_t rows = 0;
  int64_t width = 0;     // width of TRL's input_ids; their padding is left out here
  int64_t elements = 0;  // elements of TRL's input_ids
  int64_t labels = 0;    // labels other than -100, over all sequences, the first of each included
  int64_t counted_tokens = 0;
  int64_t real_tokens = 0;  // tokens that Trainer does not take for padding
  // Repetitions left out: tokens that several rows share are here once (sharing.h).
  int64_t shared_tokens = 0;
  std::vector<int32_t> sequence_labels;                            // tokens with a label, by sequence
  std::vector<int32_t> sequence_tokens;                            // tokens, by sequence
  std::map<std::string, std::vector<float>, std::less<>> columns;  // by sequence
  std::vector<int32_t> ends;  // the last segment of each sequence; empty: each segment is a sequence
  int64_t sequences() const { return std::ssize(sequence_labels); }
};

// Copies; ids outside [0, vocab_size) and borders that do not increase are Error(invalid_argument).
MicroBatch copy_batch(const engine::Batch& batch, int64_t vocab_size);

// Returns the numbers of the rows, for messages: "0, 1, 2"; of more than 16, the first and how many follow.
std::string row_list(const std::vector<const MicroBatch*>& batches);

}  // namespace trl::train
