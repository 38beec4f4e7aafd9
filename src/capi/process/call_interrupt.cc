#include "capi/process/call_interrupt.h"

#include <cerrno>
#include <mutex>
#include <utility>

#include "base/threads/thread_pool.h"
#include "capi/callback.h"
#include "capi/process/ending.h"

namespace trl::capi {

namespace {

// All existing interrupts, the newest first. Signal handlers walk this list, so reading takes no lock: an
// interrupt that is removed stays valid until no reader is left.
constinit std::atomic<Interrupt*> newest{nullptr};
constinit std::atomic<int> readers{0};
constinit std::mutex changes;

// The least time between two calls of the callback within a phase.
constexpr auto kApart = std::chrono::milliseconds(50);
constexpr std::string_view kSaving = "save";

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

// Several threads may pause and resume: the last one that gets here leaves the latest state.
void Interrupt::follow(const Interrupt& trainer) noexcept {
  bool paused = false;
  do {
    paused = trainer.paused();
    paused ? ask(kPause) : take_back(kPause);
  } while (paused != trainer.paused());
  ask(kLook);
}

void Interrupt::tell_guests() noexcept {
  each([&](Interrupt& one) {
    if (one.trainer_ == this) one.follow(*this);
  });
}

void Interrupt::visit(Interrupt& trainer, bool pausable) noexcept {
  holds_.store(pausable);
  trainer_.store(&trainer);
  follow(trainer);
}

// Whoever follows the trainer just now may leave a pause behind, which holds nothing.
void Interrupt::depart() noexcept {
  holds_.store(false);
  trainer_.store(nullptr);
  take_back(kPause | kLook);
}

// Gives the request to one guest.
bool Interrupt::take_cancel() noexcept {
  return !present_.load() && (asked_.load() & kCancel) != 0 && (asked_.fetch_and(~kCancel) & kCancel) != 0;
}

bool Interrupt::goes_on() noexcept {
  if ((asked_.load() & kWatched) != 0 && !ends()) watch();
  for (;;) {
    if ((asked_.load() & kLook) != 0) {
      take_back(kLook);
      Interrupt* const trainer = trainer_.load();
      if (trainer != nullptr && trainer->take_cancel()) ask(kCancel);
    }
    const uint32_t asked = asked_.load();
    if ((asked & kEnd) != 0 && !ending().this_thread_goes_on()) return false;
    if (ends()) return false;
    if ((asked & kPause) == 0 || !holds_.load() || base::in_pool()) return true;
    asked_.wait(asked);
  }
}

void ReportingInterrupt::report_to(std::shared_ptr<const ProgressCallback> callback) noexcept {
  callback_ = std::move(callback);
  thread_ = std::this_thread::get_id();
}

void ReportingInterrupt::report_saving_to(std::shared_ptr<const ProgressCallback> callback) noexcept {
  callback_ = std::move(callback);
  thread_ = std::this_thread::get_id();
  only_saving_ = true;
}

void ReportingInterrupt::progress(std::string_view phase, int64_t done, int64_t total) noexcept {
  if (std::this_thread::get_id() != thread_ || callback_ == nullptr || telling_ || ends()) return;
  if (only_saving_ && phase != kSaving) return;
  const bool first = phase != phase_ || (phase == kSaving && done == 0);  // of each file that is written
  try {
    phase_ = phase;
  } catch (const std::bad_alloc&) {
    return;
  }
  done_ = done;
  total_ = total;
  if (first && !only_saving_) be_watched();
  if (first || done == total || is_time()) tell();
}

// Handles a poll of any thread that works for the call.
void ReportingInterrupt::watch() noexcept {
  if (std::this_thread::get_id() == thread_ && !telling_ && is_time()) tell();
}

bool ReportingInterrupt::is_time() const noexcept {
  return std::chrono::steady_clock::now() - told_ >= kApart;
}

void ReportingInterrupt::tell() noexcept {
  telling_ = true;
  try {
    const int32_t answer = call_host("progress", [&] {
      return callback_->function(callback_->user_data.get(), phase_.c_str(), done_, total_);
    });
    if (answer < 0) fail_callback("progress", answer);
    if (answer > 0) cancel();
  } catch (...) {
    keep_failure(std::current_exception());
  }
  telling_ = false;
  told_ = std::chrono::steady_clock::now();
}

}  // namespace trl::capi
