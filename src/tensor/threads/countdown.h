// A number that threads count down to 0, and one thread that waits for that.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>

namespace trl::tensor {

// The thread that waits spins, and sleeps when that was in vain. To be woken takes longer than most waits
// last; but where others need the processor, the one that is waited for may get it only when this one sleeps.
// So it spins for as long as has paid lately, at first for as long as a futex takes, and tries now and then
// whether more would pay.
class Countdown {
 public:
  explicit Countdown(uint32_t count);
  void start(uint32_t count) { left_.store(count, std::memory_order_relaxed); }  // nobody waits
  void arrive();
  void wait();

 private:
  using Clock = std::chrono::steady_clock;
  bool spin(Clock::duration most, Clock::duration& taken) const;
  void sleep();

  static constexpr uint32_t kSleeps = 1u << 31;  // beside the count: the thread that waits must be woken
  std::atomic<uint32_t> left_;
  // Of the thread that waits.
  Clock::duration spins_for_;
  uint32_t waits_ = 0, tries_each_;
};

}  // namespace trl::tensor
