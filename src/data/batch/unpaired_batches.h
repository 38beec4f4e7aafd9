// Makes micro-batches of unpaired rows (KTO), in the order of a run.
#pragma once
#include <memory>

#include "data/batch/batch_stream.h"
#include "data/batch/preference_batch.h"
#include "data/prepare/preference.h"

namespace trl::data {

// A batch of n rows has 2n sequences: the completions, then each row's prompt with the completion of another
// row of its group of `group` consecutive rows (kl_completions). group 0: n sequences, only the completions.
// Column `label`, for all of them: 1 if the row's completion is desirable, else 0. Counts of rows and tokens
// are those of the first n, as in TRL.
std::unique_ptr<BatchStream> batches_of_unpaired(std::unique_ptr<UnpairedList> list,
                                                 const OrderOptions& order, const BatchLayout& layout,
                                                 const Truncation& truncation, int64_t group);
// The rows of a batch form a group; without kl there are no groups.
StreamedRows streamed_unpaired(const BatchLayout& layout, const Truncation& truncation, bool kl);

}  // namespace trl::data
