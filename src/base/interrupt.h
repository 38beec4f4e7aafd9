// A call of the library can be held or ended from outside while it works. It asks at safe points whether it
// goes on: between kernels and tiles, rows, and pieces of files, on its own thread and on every worker of it.
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
  // One relaxed load. false: the call goes on.
  bool pending() const noexcept { return asked_.load(std::memory_order_relaxed) != 0; }
  // Where pending(). Waits while the call is held; false: the call ends, which every later answer says too.
  virtual bool goes_on() noexcept = 0;
  // How far the call is in a phase of it; total -1: not known. Heard on the call's own thread alone.
  virtual void progress(std::string_view /*phase*/, int64_t /*done*/, int64_t /*total*/) noexcept {}

 protected:
  Interrupt() = default;
  ~Interrupt() = default;
  std::atomic<uint32_t> asked_{0};
};

// Of the call that this thread works for; null: nothing interrupts it.
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

// Whether the work of this thread ends here: for workers, which may not throw.
inline bool stopped() noexcept {
  Interrupt* const interrupt = thread_interrupt();
  return interrupt != nullptr && interrupt->pending() && !interrupt->goes_on();
}

inline void progress(std::string_view phase, int64_t done, int64_t total) noexcept {
  if (Interrupt* const interrupt = thread_interrupt()) interrupt->progress(phase, done, total);
}

// Throws Error(cancelled) where it ends.
inline void poll() {
  if (stopped()) throw Error(Status::cancelled, "cancelled");
}

}  // namespace trl::base
