// transformers' speed_metrics.
#pragma once
#include <string>

#include "telemetry/record.h"

namespace trl::train {

// split: "train" or "eval".
inline void write_speed(telemetry::Record& record, const std::string& split, double seconds, double samples,
                        double steps) {
  record.set(split + "_runtime", telemetry::round_decimals(seconds, 4));
  if (seconds <= 0) return;
  record.set(split + "_samples_per_second", telemetry::round_decimals(samples / seconds, 3));
  record.set(split + "_steps_per_second", telemetry::round_decimals(steps / seconds, 3));
}

}  // namespace trl::train
