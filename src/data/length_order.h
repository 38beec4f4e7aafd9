// The order that train_sampling_strategy group_by_length reads rows in (transformers'
// get_length_grouped_indices, trainer_pt_utils.py), for whoever needs the rows' lengths alone.
#pragma once
#include <cstdint>
#include <vector>

#include "base/random.h"

namespace trl::data {

// Rows of about the same length together: the lengths of all rows, in their own order before and in the order
// in which they are read after. batch_size: rows of one optimizer step.
void group_by_length(std::vector<uint32_t>& lengths, int64_t batch_size, base::TorchGenerator& generator);

}  // namespace trl::data
