#include "tensor/threads/countdown.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace trl::tensor {

namespace {

using std::chrono::microseconds;
constexpr microseconds kLeast{3}, kMost{200};
// One wait in this many is longer, to see if that pays off.
constexpr uint32_t kTriesOften = 4, kTriesSeldom = 512;

void pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

long futex(std::atomic<uint32_t>& word, int operation, uint32_t value) noexcept {
  return ::syscall(SYS_futex, &word, operation, value, nullptr, nullptr, 0);
}

}  // namespace

Countdown::Countdown(uint32_t count) : left_(count), spins_for_(kLeast), tries_each_(kTriesOften) {}

void Countdown::arrive() {
  if (left_.fetch_sub(1, std::memory_order_acq_rel) == (kSleeps | 1)) futex(left_, FUTEX_WAKE_PRIVATE, 1);
}

// Returns whether the count reached 0 in time.
bool Countdown::spin(Clock::duration most, Clock::duration& taken) const {
  const Clock::time_point begin = Clock::now();
  do {
    for (int i = 0; i < 8; ++i) {
      if (left_.load(std::memory_order_acquire) == 0) return taken = Clock::now() - begin, true;
      pause();
    }
  } while (Clock::now() - begin < most);
  return false;
}

void Countdown::sleep() {
  uint32_t left = left_.fetch_or(kSleeps, std::memory_order_acquire) | kSleeps;
  while (left != kSleeps) {
    futex(left_, FUTEX_WAIT_PRIVATE, left);
    left = left_.load(std::memory_order_acquire);
  }
}

void Countdown::wait() {
  if (left_.load(std::memory_order_acquire) == 0) return;
  const bool tries = ++waits_ % tries_each_ == 0;
  Clock::duration taken{};
  if (spin(tries ? kMost : spins_for_, taken)) {
    spins_for_ = std::clamp<Clock::duration>(2 * taken, spins_for_, kMost);
    if (tries) tries_each_ = std::max(kTriesOften, tries_each_ / 2);
  } else {
    spins_for_ = std::max<Clock::duration>(kLeast, spins_for_ / 2);
    if (tries) tries_each_ = std::min(kTriesSeldom, tries_each_ * 2);
    sleep();
  }
}

}  // namespace trl::tensor
