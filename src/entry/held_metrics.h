// Holds metrics for the host.
#pragma once
#include <span>
#include <utility>
#include <vector>

#include "engine/host.h"
#include "telemetry/trainer_state.h"

namespace trl::entry {

// The metrics of the latest call, which the host reads until the next one.
class HeldMetrics {
 public:
  std::span<const engine::Metric> hold(telemetry::Record record) {
    record_ = std::move(record);
    metrics_.clear();
    for (const telemetry::Entry& entry : record_.entries()) metrics_.push_back({entry.name, entry.value});
    return metrics_;
  }

 private:
  telemetry::Record record_;
  std::vector<engine::Metric> metrics_;  // refer to it
};

}  // namespace trl::entry
