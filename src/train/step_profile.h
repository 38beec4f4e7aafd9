// The seconds of one step; with profile_parts also by part, and the inputs of its roofline, as metrics.
#pragma once
#include <chrono>
#include <span>

#include "tensor/parts.h"
#include "train/method.h"

namespace trl::train {

// Lives as long as the step, on its thread.
class StepProfile {
 public:
  explicit StepProfile(bool on) : on_(on), timing_(on ? &times_ : nullptr) {}
  double seconds() const { return std::chrono::duration<double>(Clock::now() - begin_).count(); }  // so far
  // Empty if it is off. generates: the method writes completions.
  MethodMetrics metrics(std::span<const MicroBatch> window, bool generates) const;

 private:
  using Clock = std::chrono::steady_clock;
  const bool on_;
  const Clock::time_point begin_ = Clock::now();
  tensor::PartTimes times_;
  const tensor::TimeParts timing_;
};

}  // namespace trl::train
