// Lets a call of the library be held or ended from outside while it works. At safe points (between kernels,
// tiles, rows and pieces of files) its own thread and each of its workers ask whether to continue.
#pragma once
#include <atomic>
#include <cstdint>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace trl::base {

class Interrupt {
 public:
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  // One relaxed load. false: the call continues.
  bool pending() const noexcept { return asked_.load(std::memory_order_relaxed) != 0; }
  // Called when pending(). Waits while the call is held. false: the call must end, and every later
  // answer is false too.
  virtual bool goes_on() noexcept = 0;
  // Reports the call's progress in one of its phases; total -1: not known. Has an effect only on the call's
  // own thread.
  virtual void progress(std::string_view /*phase*/, int64_t /*done*/, int64_t /*total*/) noexcept {}
  // Reports that a callback of the host failed in this call, which must therefore end.
  virtual void fail() noexcept {}

 protected:
  Interrupt() = default;
  ~Interrupt() = default;
  std::atomic<uint32_t> asked_{0};
};

// The interrupt of the call that this thread works for; null: nothing can interrupt it.
inline Interrupt*& thread_interrupt() noexcept {
  static constinit thread_local Interrupt* current = nullptr;
  return current;
}

class InterruptScope {
 public:
  explicit InterruptScope(Interrupt* interrupt) noexcept
      : before_(std::exchange(thread_interrupt(), interrupt)) {}
  ~InterruptScope() { thread_interrupt() = before_; }
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

 private:
  Interrupt* const before_;
};

// Returns whether this thread must stop its work here: for workers, which may not throw.
inline bool stopped() noexcept {
  Interrupt* const interrupt = thread_interrupt();
  return interrupt != nullptr && interrupt->pending() && !interrupt->goes_on();
}

inline void progress(std::string_view phase, int64_t done, int64_t total) noexcept {
  if (Interrupt* const interrupt = thread_interrupt()) interrupt->progress(phase, done, total);
}

// Throws Error(cancelled) if the call must end.
inline void poll() {
  if (stopped()) throw Error(Status::cancelled, "cancelled");
}

}  // namespace trl::base
