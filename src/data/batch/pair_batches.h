// Makes micro-batches of preference rows, in the order of a run.
#pragma once
#include <memory>

#include "data/batch/batch_stream.h"
#include "data/batch/preference_batch.h"
#include "data/prepare/preference.h"

namespace trl::data {

// A batch of n rows has 2n sequences: all chosen ones, then all rejected ones. If the pairs have a margin,
// the column `margin` has it for both sequences of a pair.
std::unique_ptr<BatchStream> batches_of_pairs(std::unique_ptr<PreferenceList> pairs,
                                              const OrderOptions& order, const BatchLayout& layout,
                                              const Truncation& truncation);
// kind: dpo_kind or reward_kind.
StreamedRows streamed_pairs(decltype(dpo_kind)& kind, const BatchLayout& layout,
                            const Truncation& truncation);

}  // namespace trl::data
