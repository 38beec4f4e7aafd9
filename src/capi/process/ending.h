// The end of the process runs the destructors of libtorch and of its libraries while other threads may still
// compute with them. Before these destructors the calls of the other threads are ended and waited for, and
// every thread that has not stopped is blocked: at the end of the main thread's thread_local objects, or by
// an exit handler if another thread calls exit.
#pragma once
#include <pthread.h>

#include <atomic>
#include <functional>

namespace trl::capi {

// Blocks this thread for good.
[[noreturn]] void park() noexcept;

class Ending {
 public:
  // A thread begins to work in the library; false: it no longer may. After true, leave() must be called.
  bool enter() noexcept;
  void leave() noexcept { --working_; }
  // Called around a function of the host, which does not count as work in the library. come_back() may never
  // return.
  void go_out() noexcept { --working_; }
  void come_back() noexcept;

  bool begun() const noexcept { return phase_ != Phase::none; }
  // Returns whether this thread ends the process, and nothing interrupts its calls. Those of any other thread
  // are ended, even if it entered just before.
  bool on_this_thread() const noexcept { return begun() && is_exiting_thread(); }
  // Returns an interrupt's answer after the end has begun. Never returns on a thread that did not stop in
  // time.
  bool this_thread_goes_on() noexcept;

  // Runs body, which loads libraries, and passes on what it throws. The end of the process waits for it.
  void while_loading(const std::function<void()>& body);
  // Runs body, in which libraries make objects that they destroy at the end.
  void while_first_used(const std::function<void()>& body);

 private:
  friend struct EndOfMainThread;
  enum class Phase : int { none, stops, parks };
  void begin() noexcept;
  void close() noexcept;
  static void on_exit() noexcept;
  static void on_destructors() noexcept;
  bool is_exiting_thread() const noexcept { return ::pthread_equal(exiting_, ::pthread_self()) != 0; }

  std::atomic<Phase> phase_{Phase::none};
  std::atomic<bool> closed_{false};  // destructors of the engine's libraries may have run
  std::atomic<int> working_{0};      // threads inside a call
  std::atomic<int> loading_{0};
  pthread_t exiting_{};  // before phase_
};

Ending& ending();

}  // namespace trl::capi
