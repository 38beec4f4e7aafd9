// Profiles the lengths of a dataset's rows, for a configuration.
#pragma once
#include "config/config.h"
#include "data/lengths/profile_lengths.h"
#include "run/rows/rows.h"
#include "run/tokenizer.h"

namespace trl::run {

data::ProfileOptions profile_options(const config::Config& config);
telemetry::LengthProfile count_lengths(const Rows& dataset, const Tokenizer& tokenizer,
                                       const config::Config& config, const data::ProfileOptions& options);

}  // namespace trl::run
