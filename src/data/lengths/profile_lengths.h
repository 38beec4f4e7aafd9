// Counts how long the rows of a dataset are in tokens and what each max_length would cost
// (telemetry/length_profile.h). Rows are tokenised as training tokenises them and their lengths laid out as
// its batches are; three bytes a row are kept, so that a dataset may be larger than memory.
#pragma once
#include <cstdint>
#include <vector>

#include "data/batch/order.h"
#include "data/prepare/sft.h"
#include "telemetry/length_profile.h"

namespace trl::data {

inline constexpr size_t kMostProfileLimits = 64;

struct ProfileOptions {
  // Values of max_length; empty: the powers of two from the one at or below the median to the longest row's,
  // and `max_length` if it is above 0.
  std::vector<int64_t> max_lengths;
  int64_t max_length = 0;
  OrderOptions order;    // of the run whose batches are counted
  OrderOptions grouped;  // the same with train_sampling_strategy group_by_length
  int64_t gradient_accumulation_steps = 1;
};

// Reads the whole source once. context.arguments->max_length is not read. Throws as preparation does.
telemetry::LengthProfile profile_lengths(Source& source, const PrepareContext& context,
                                         const ProfileOptions& options);

}  // namespace trl::data
