// The seconds of one step; with profile_parts also by part, and the inputs of its roofline, as metrics.
#pragma once
#include <chrono>
#include <optional>
#include <span>

#include "tensor/parts.h"
#include "train/method.h"

namespace trl::train {

class StepProfile {
 public:
  explicit StepProfile(bool on) : on_(on) {}
  // Counts the time of this thread as the step's while it lives; one at a time.
  class Running {
   public:
    explicit Running(StepProfile& step) : step_(step), timing_(step.on_ ? &step.times_ : nullptr) {
      step.begin_ = Clock::now();
    }
    ~Running() {
      step_.passed_ += Clock::now() - *step_.begin_;
      step_.begin_.reset();
    }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    StepProfile& step_;
    const tensor::TimeParts timing_;
  };
  double seconds() const {  // so far
    const auto running = begin_ ? Clock::now() - *begin_ : Clock::duration{};
    return std::chrono::duration<double>(passed_ + running).count();
  }
  // Empty if it is off. generates: the method writes completions. synced: seconds of the step in which
  // weights went to a server that writes them; none: no server does.
  MethodMetrics metrics(std::span<const MicroBatch> window, bool generates,
                        std::optional<double> synced) const;

 private:
  using Clock = std::chrono::steady_clock;
  const bool on_;
  Clock::duration passed_{};
  std::optional<Clock::time_point> begin_;  // while it is running
  tensor::PartTimes times_;
};

}  // namespace trl::train
