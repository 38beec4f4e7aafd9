// The engine's copy of a micro-batch: the source's batch is valid only until its next call, and a step that
// failed is tried again with the same rows.
// Cuts a micro-batch into parts (max_tokens_per_pass) that go through the model one at a time, so that only
// the activations of one part exist at once. The micro-batch remains the unit of loss and metrics.
#pragma once
#include <ATen/ATen.h>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/batch/batch.h"
#include "train/batches/targets.h"

namespace trl::train {

// A micro-batch, or a part of one (parts_of), of which only the first five members are cut to it.
struct MicroBatch : data::BatchRows {
  at::Tensor input_ids;     // int32 [tokens]
  at::Tensor position_ids;  // int32 [tokens]
  Targets targets;
  kernels::SegmentsPtr segments;
  int64_t first = 0;  // in a part: the place of its first token in the whole
  int64_t reach = 0;  // the last position plus 1
  // Repetitions left out: tokens that several rows share are here once (share_prefix).
  int64_t shared_tokens = 0;
  std::vector<int32_t> sequence_labels;  // tokens with a label, by sequence, the first of each included
  std::vector<int32_t> sequence_tokens;  // tokens, by sequence
  // The rows without trees, of a window that may be joined; else null.
  std::shared_ptr<const data::Batch> flat;
  int64_t tokens() const { return input_ids.numel() + shared_tokens; }  // of all rows
  int64_t sequence_count() const { return std::ssize(sequence_labels); }
};

// Copies; ids outside [0, vocab_size), borders that do not increase and members of another length are
// Error(invalid_argument).
MicroBatch copy_batch(const data::Batch& batch, int64_t vocab_size);

// Returns the numbers of the rows, for messages: "0, 1, 2"; of more than 16, the first and how many follow.
std::string row_list(std::span<const MicroBatch> batches);

// Cuts a batch between documents, or trees of them, into the fewest parts of at most `most_tokens` tokens
// (none: unbounded), and makes the longest part as short as that number of parts allows. A document or tree
// that is longer is one part. The parts are views of the batch's tensors; members about the whole batch stay.
std::vector<MicroBatch> parts_of(const MicroBatch& batch, std::optional<int64_t> most_tokens);

}  // namespace trl::train
