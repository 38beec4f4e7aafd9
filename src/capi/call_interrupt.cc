#include "capi/call_interrupt.h"

#include <cerrno>
#include <mutex>
#include <thread>

#include "base/threads/thread_pool.h"
#include "capi/ending.h"

namespace trl::capi {

namespace {

// All existing interrupts, the newest first. Signal handlers walk this list, so reading takes no lock: an
// interrupt that is removed stays valid until no reader is left.
constinit std::atomic<Interrupt*> newest{nullptr};
constinit std::atomic<int> readers{0};
constinit std::mutex changes;

}  // namespace

Interrupt::Interrupt(Of of) : of_(of) {
  {
    const std::lock_guard lock(changes);
    next_ = newest.load();
    newest = this;
  }
  if (ending().begun()) ask(kEnd);
}

Interrupt::~Interrupt() {
  {
    const std::lock_guard lock(changes);
    std::atomic<Interrupt*>* place = &newest;
    while (*place != this) place = &place->load()->next_;
    place->store(next_);
  }
  while (readers != 0) std::this_thread::yield();
}

template <class Body>
void Interrupt::each(const Body& body) noexcept {
  ++readers;
  for (Interrupt* one = newest; one != nullptr; one = one->next_) body(*one);
  --readers;
}

// A call of a trainer has two of these, and the trainer's own is the older one, so it is stopped last. If a
// call begins with that one meanwhile (begin() forgets earlier requests), it was stopped through the other.
void Interrupt::cancel_calls(const void* runtime) noexcept {
  each([&](Interrupt& one) {
    if (one.of_ == Of::call && (runtime == nullptr || one.runtime_ == runtime)) one.ask(kStop);
  });
}

void Interrupt::end_all() noexcept {
  each([](Interrupt& one) { one.ask(kEnd); });
}

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
  if ((asked_.load() & kWatched) != 0 && !ends()) watch();
  for (;;) {
    const uint32_t asked = asked_.load();
    if ((asked & kEnd) != 0 && !ending().this_thread_goes_on()) return false;
    if (ends()) return false;
    if ((asked & kPause) == 0 || !holds_.load() || base::in_pool()) return true;
    asked_.wait(asked);
  }
}

}  // namespace trl::capi
