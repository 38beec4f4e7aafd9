// The time that is saved by rows which go through no backward.
#pragma once
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <chrono>

#include "model/model.h"
#include "train/policy/joint.h"

namespace trl::train {

// Measures it in one window.
class SilentTime {
 public:
  // Runs a forward.
  template <typename Forward>
  model::Output of(const Forward& forward) {
    const bool silent = !at::GradMode::is_enabled();
    const Clock::time_point begin = Clock::now();
    model::Output output = forward();
    if (silent) silent_ += seconds_since(begin);
    return output;
  }
  // Call after the last backward. pace: seconds of a token of other rows, which are kept for windows without
  // any.
  double saved(const Joint& joint, double& pace) const {
    const int64_t learning = joint.tokens() - joint.silent_tokens();
    if (learning > 0) pace = (seconds_since(begin_) - silent_) / static_cast<double>(learning);
    if (joint.silent_rows == 0) return 0;
    return std::max(0.0, pace * static_cast<double>(joint.silent_tokens() + joint.left_out) - silent_);
  }

 private:
  using Clock = std::chrono::steady_clock;
  static double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }
  const Clock::time_point begin_ = Clock::now();
  double silent_ = 0;  // seconds
};

}  // namespace trl::train
