// Rewards and log-probabilities as numbers of JSON.
#pragma once
#include <cmath>

#include "base/json/json.h"

namespace trl::run {

// Returns whether float32, which TRL computes with, holds the value; NaN is a value too.
inline bool in_float32(double value) { return std::isnan(value) || std::isfinite(static_cast<float>(value)); }

// Returns whether it can be the log-probability of a token: at most 0, but for rounding; NaN: not known.
inline bool is_log_probability(double value) {
  constexpr double kRounding = 1e-4;
  return std::isnan(value) || (in_float32(value) && value <= kRounding);
}

// NaN is null: none, or not known.
inline base::Json json_of(double value) { return std::isnan(value) ? base::Json() : base::Json(value); }

}  // namespace trl::run
