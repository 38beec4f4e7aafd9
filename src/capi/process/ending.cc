#include "capi/process/ending.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>

#include "base/threads/thread_pool.h"
#include "capi/process/call_interrupt.h"
#include "capi/process/process.h"

namespace trl::capi {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kWait = std::chrono::seconds(2);
constexpr auto kTick = std::chrono::microseconds(20);

// Exit handlers run in reverse order, and a library registers destructors both while it is loaded and when it
// first uses an object. A handler that has to run before them is therefore registered repeatedly in the
// meantime: every `kTick` at first, and then whenever another `share` of the time so far has passed, so that
// slow disks do not make them many.
class KeptLatest {
 public:
  KeptLatest(void (*handler)(), double share) : handler_(handler), share_(share) {
    std::atexit(handler_);
    thread_ = base::quiet_thread("trl-exit", [this] { run(); });
  }
  ~KeptLatest() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    wake_.notify_one();
    thread_.join();
    std::atexit(handler_);
  }
  KeptLatest(const KeptLatest&) = delete;
  KeptLatest& operator=(const KeptLatest&) = delete;

 private:
  void run() {
    const Clock::time_point begin = Clock::now();
    std::unique_lock lock(mutex_);
    while (!done_) {
      const auto share = std::chrono::duration_cast<Clock::duration>((Clock::now() - begin) * share_);
      wake_.wait_for(lock, std::max<Clock::duration>(kTick, share));
      std::atexit(handler_);
    }
  }
  void (*const handler_)();
  const double share_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace

// glibc destroys the thread_local objects of the thread that calls exit before it runs any exit handler. The
// main thread's are destroyed at no other time: not by pthread_exit. So this runs first when main returns or
// calls exit, whatever a library registers later, and on whichever thread.
struct EndOfMainThread {
  ~EndOfMainThread() { Ending::on_exit(); }
  static void watch() noexcept {
    if (::getpid() == ::gettid()) [[maybe_unused]]
      thread_local const EndOfMainThread at_end;
  }
};

namespace {
// The main thread may never call this library, only load it.
[[maybe_unused]] const bool main_thread_is_watched = (EndOfMainThread::watch(), true);
}  // namespace

void park() noexcept {
  for (;;) ::pause();
}

Ending& ending() {
  static Ending* const only = new Ending;
  return *only;
}

bool Ending::enter() noexcept {
  EndOfMainThread::watch();
  ++working_;
  if (phase_ == Phase::none || (is_exiting_thread() && !closed_)) return true;
  --working_;
  return false;
}

void Ending::come_back() noexcept {
  ++working_;
  if (phase_ != Phase::parks || is_exiting_thread()) return;
  --working_;
  park();
}

bool Ending::this_thread_goes_on() noexcept {
  if (is_exiting_thread()) return true;
  if (phase_ == Phase::parks) {
    if (inside_call()) --working_;  // a worker of a call is not counted, and the call may go on beside it
    park();
  }
  return false;
}

void Ending::while_loading(const std::function<void()>& body) {
  struct Loading {
    explicit Loading(std::atomic<int>& count) : count_(count) { ++count_; }
    ~Loading() { --count_; }
    std::atomic<int>& count_;
  };
  const Loading loading(loading_);
  const KeptLatest latest(&Ending::on_exit, 0.001);
  body();
  std::atexit(&Ending::on_destructors);
}

void Ending::while_first_used(const std::function<void()>& body) {
  const KeptLatest latest(&Ending::on_exit, 0.01);
  body();
}

void Ending::on_exit() noexcept {
  if (!process().forked()) ending().begin();
}

void Ending::on_destructors() noexcept {
  if (!process().forked()) ending().close();
}

// Runs on the thread that ends the process, which may itself be inside a call.
void Ending::begin() noexcept {
  static std::atomic<bool> begun{false};
  if (begun.exchange(true)) return;
  exiting_ = ::pthread_self();
  phase_ = Phase::stops;
  Interrupt::end_all();
  const int own = inside_call() ? 1 : 0;
  const auto wait = [&] {
    Clock::time_point latest = Clock::now() + kWait;
    while (working_ > own && Clock::now() < latest) {
      if (loading_ > 0) latest = Clock::now() + kWait;  // half-loaded libraries cannot be abandoned
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  wait();
  phase_ = Phase::parks;
  // For threads that did not stop, or came back from the host just before: they park at their next poll.
  wait();
}

void Ending::close() noexcept { closed_ = true; }

}  // namespace trl::capi
