// The targets of a micro-batch.
#pragma once
#include <span>

#include "data/batch/batch.h"
#include "kernels/head/head.h"

namespace trl::train {

// Next tokens, by the row of hidden states that predicts each.
struct Targets {
  kernels::HeadTargets tokens;
  std::vector<int32_t> sequences;  // the sequence of each
  data::Columns columns;           // of tokens: the values of the target's token
  int64_t size() const { return tokens.size(); }
};

// Finds the targets of a batch. In this and what follows, ends: the last segment of each sequence; empty:
// each segment is a sequence.
Targets targets_of(const data::Batch& batch, const kernels::Segments& segments);

// Counts the tokens of each sequence that have a label, the first one included.
std::vector<int32_t> count_labels(const data::Batch& batch, const kernels::Segments& segments);

// Returns the row of each sequence's last token that is not `pad`; if all are, of its first token. ids: int32
// [tokens].
std::vector<int32_t> last_rows(const int32_t* ids, const kernels::Segments& segments,
                               std::span<const int32_t> ends, int32_t pad);

// Counts the tokens of each sequence.
std::vector<int32_t> count_tokens(const kernels::Segments& segments, std::span<const int32_t> ends);

// Counts for each segment the sequences that contain it.
std::vector<int32_t> count_sequences(const kernels::Segments& segments, std::span<const int32_t> ends);

// Returns the targets of the rows [first, first + count), numbered from `first` on.
Targets part_of(const Targets& targets, int64_t first, int64_t count);

// Returns a digest of each sequence's inputs to its targets' log-probabilities, the same for the same tokens
// at any place: the tokens up to the last target, and the targets. 0 for a sequence without a target. ids:
// int32 [tokens].
std::vector<uint64_t> digests_of(const Targets& targets, const kernels::Segments& segments,
                                 const int32_t* ids, int64_t sequences);

}  // namespace trl::train
