// A number that threads count down to 0, and one thread that waits for 0.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>

namespace trl::tensor {

// The waiting thread spins, and sleeps if spinning was in vain. Waking takes longer than most waits last; but
// if others need the processor, the thread that is waited for may only get it when this one sleeps. So it
// spins for as long as has paid off lately, initially for as long as a futex takes, and tries now and then
// whether longer would pay off.
class Countdown {
 public:
  explicit Countdown(uint32_t count);
  void start(uint32_t count) { left_.store(count, std::memory_order_relaxed); }  // while no thread waits
  void arrive();
  void wait();

 private:
  using Clock = std::chrono::steady_clock;
  bool spin(Clock::duration most, Clock::duration& taken) const;
  void sleep();

  // A flag in left_, next to the count: the waiting thread must be woken.
  static constexpr uint32_t kSleeps = 1u << 31;
  std::atomic<uint32_t> left_;
  // Only used by the waiting thread.
  Clock::duration spins_for_;
  uint32_t waits_ = 0, tries_each_;
};

}  // namespace trl::tensor
