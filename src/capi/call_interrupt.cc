#include "capi/call_interrupt.h"

#include <cerrno>

#include "base/thread_pool.h"
#include "capi/ending.h"

namespace trl::capi {

Interrupt::Interrupt() { ending().add(*this); }
Interrupt::~Interrupt() { ending().remove(*this); }

// Waking is one system call. errno is restored: a signal handler may run between a failure and its check.
void Interrupt::ask(uint32_t what) noexcept {
  asked_.fetch_or(what);
  const int before = errno;
  asked_.notify_all();
  errno = before;
}

void Interrupt::take_back(uint32_t what) noexcept {
  asked_.fetch_and(~what);
  const int before = errno;
  asked_.notify_all();
  errno = before;
}

bool Interrupt::goes_on() noexcept {
  if ((asked_.load() & kWatched) != 0) watch();
  for (;;) {
    const uint32_t asked = asked_.load();
    if ((asked & kEnd) != 0 && !ending().this_thread_goes_on()) return false;
    if ((asked & (kCancel | kFail)) != 0) return false;
    if ((asked & kPause) == 0 || !holds_.load() || base::in_pool()) return true;
    asked_.wait(asked);
  }
}

}  // namespace trl::capi
