// Measures the seconds of a step by part (profile_parts). A part within another counts as the outer one (a
// product within the head counts as the head), and every parallel region outside of parts as elementwise.
#pragma once
#include <array>
#include <chrono>
#include <cstdint>

namespace trl::tensor {

// The last four: of methods that write completions, before their update.
enum class Part : uint8_t { gemm, attention, elementwise, head, optimizer, generate, reward, old, reference };
inline constexpr size_t kParts = 9;

class PartTimes {
 public:
  double seconds(Part part) const {
    return std::chrono::duration<double>(spent_[static_cast<size_t>(part)]).count();
  }

 private:
  friend class Timed;
  friend class TimeParts;
  using Clock = std::chrono::steady_clock;
  static inline constinit thread_local PartTimes* running_ = nullptr;
  std::array<Clock::duration, kParts> spent_{};
  bool within_ = false;  // whether this thread is within a part
};

// Times the parts of this thread's work during its lifetime; null: no timing.
class TimeParts {
 public:
  explicit TimeParts(PartTimes* times) : before_(PartTimes::running_) { PartTimes::running_ = times; }
  ~TimeParts() { PartTimes::running_ = before_; }
  TimeParts(const TimeParts&) = delete;
  TimeParts& operator=(const TimeParts&) = delete;

 private:
  PartTimes* const before_;
};

// Attributes the rest of the block to `part`.
class Timed {
 public:
  explicit Timed(Part part) {
    if (PartTimes::running_ == nullptr || PartTimes::running_->within_) return;
    times_ = PartTimes::running_;
    times_->within_ = true;
    part_ = part;
    begin_ = PartTimes::Clock::now();
  }
  ~Timed() {
    if (times_ == nullptr) return;
    times_->spent_[static_cast<size_t>(part_)] += PartTimes::Clock::now() - begin_;
    times_->within_ = false;
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  PartTimes* times_ = nullptr;
  Part part_{};
  PartTimes::Clock::time_point begin_;
};

}  // namespace trl::tensor
