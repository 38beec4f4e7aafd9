// The targets of a micro-batch.
#pragma once
#include <span>

#include "kernels/head/head.h"

namespace trl::train {

// Next tokens, by the row of hidden states that each is predicted from.
struct Targets {
  kernels::HeadTargets tokens;
  std::vector<int32_t> sequences;  // to which each belongs
  int64_t size() const { return tokens.size(); }
};

// Of labels that are not shifted (engine::Batch), int32 [tokens]: a token with a label is predicted from the
// one before it in its sequence, once for each sequence. ends: the last segment of each sequence; empty: each
// segment is one by itself.
Targets targets_of(const int32_t* labels, const kernels::Segments& segments, std::span<const int32_t> ends);

// How many tokens of each sequence have a label, the first one too.
std::vector<int32_t> count_labels(const int32_t* labels, const kernels::Segments& segments,
                                  std::span<const int32_t> ends);

// Of each sequence the row of its last token that is not `pad`; where all are, of its first. ids: int32
// [tokens].
std::vector<int32_t> last_rows(const int32_t* ids, const kernels::Segments& segments,
                               std::span<const int32_t> ends, int32_t pad);

// Tokens of each sequence.
std::vector<int32_t> count_tokens(const kernels::Segments& segments, std::span<const int32_t> ends);

// Of each segment, to how many sequences it belongs.
std::vector<int32_t> count_sequences(const kernels::Segments& segments, std::span<const int32_t> ends);

// Those of the rows [first, first + count), numbered from the first on.
Targets part_of(const Targets& targets, int64_t first, int64_t count);

// What the log-probabilities of each sequence's targets depend on, as a number that is the same for the same
// tokens wherever they lie: the tokens up to the last target, and the targets. Of a sequence without a target
// 0. ids: int32 [tokens].
std::vector<uint64_t> digests_of(const Targets& targets, const kernels::Segments& segments,
                                 const int32_t* ids, int64_t sequences);

}  // namespace trl::train
