// How long the rows of a dataset are, for a configuration.
#pragma once
#include "capi/dataset_handle.h"
#include "capi/tokenizer_handle.h"
#include "config/config.h"
#include "data/profile_lengths.h"

namespace trl::capi {

data::ProfileOptions profile_options(const config::Config& config);
telemetry::LengthProfile count_lengths(const Dataset& dataset, const Tokenizer& tokenizer,
                                       const config::Config& config, const data::ProfileOptions& options);

}  // namespace trl::capi
