// Predicts the peak of a training run at each max_length of a length profile.
#pragma once
#include "config/config.h"
#include "run/environment.h"
#include "telemetry/length_profile.h"

namespace trl::run {

// Rehearses a step of the largest batch at each of them; only the first is timed. The reason of a refusal
// becomes profile.no_peaks.
void predict_peaks(Environment& environment, telemetry::LengthProfile& profile, const config::Config& config);

}  // namespace trl::run
