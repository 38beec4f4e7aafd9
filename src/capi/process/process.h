// The one place of process state in libtrl.so: the memory counter with its limit, the thread count, the
// engine, and the call that each thread is inside. Made by the first call that needs it and never freed, so
// that exit order does not matter.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>

#include "base/arithmetic/plain_arithmetic.h"
#include "base/memory/memory.h"
#include "capi/process/call_interrupt.h"
#include "engine/engine.h"
#include "run/environment.h"
#include "run/plan/memory_budget.h"

namespace trl::capi {

class EngineHost;
class RuntimeLog;

// Settings that a runtime makes for the whole process; nullopt: not set.
struct Settings {
  std::optional<int64_t> memory_limit;
  std::optional<int64_t> threads;
};

using run::Use;

class Process {
 public:
  Process();
  ~Process();
  base::MemoryCounter& memory() { return memory_; }
  Interrupt& background() { return background_; }  // for work that outlives the call which began it
  // Registers a runtime; throws Error(busy) if a living one has other settings.
  void join(const Settings& settings);
  void leave() noexcept;  // unregisters it; after the last one, settings are free again
  int threads();
  void set_memory_limit(int64_t bytes);
  // Counts memory of this thread's call. Throws Error(out_of_memory), naming the limit that it would pass.
  void charge(base::MemoryKind kind, int64_t bytes);
  // Opens the engine on first use, with the current number of threads. Throws the loader's errors.
  engine::Engine& engine();
  // Runs body, a call of the engine, which returns a status.
  int32_t use_engine(Use use, const std::function<int32_t()>& body);
  bool forked() const noexcept;
  // Ends the threads that are kept between calls. Throws Error(busy) while another call runs.
  void shut_down();
  std::shared_mutex& calls() noexcept { return calls_; }  // held by each call of the host
  void hand_over(RuntimeLog& log) noexcept;  // delivers the lines that the engine's own threads logged

 private:
  void limit_memory(std::string_view name, int64_t bytes);  // with the lock held

  const int id_;
  base::MemoryCounter memory_;
  Interrupt background_{Interrupt::Of::background};
  const std::unique_ptr<EngineHost> host_;
  std::mutex mutex_;
  int64_t runtimes_ = 0;
  std::optional<int64_t> threads_;
  std::shared_mutex calls_;
  std::mutex engine_mutex_;
  engine::Engine* engine_ = nullptr;
  int engine_threads_ = 0;
  std::array<std::atomic<int>, 5> uses_{};
};

Process& process();

// Throws Error(busy) in a child that was forked after the first call.
void check_process();
// Throws Error(busy) there and inside a callback. in_rollout: a function that RolloutScope marks may call.
void check_entry(bool in_rollout = false);

// Marks the function of the host that this thread calls next: it is asked for a rollout.
class RolloutScope {
 public:
  RolloutScope() noexcept;
  ~RolloutScope();
  RolloutScope(const RolloutScope&) = delete;
  RolloutScope& operator=(const RolloutScope&) = delete;

 private:
  const int before_;
};

// Marks this thread as inside a call: its arithmetic is plain, and pthread_cancel waits for the call's end.
class CallScope {
 public:
  CallScope() noexcept;
  ~CallScope();
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;
  void throw_failure()
      const;  // throws the kept failure if this is the host's own call, not one within a callback
  void log_failure(RuntimeLog* log) const noexcept;  // logs it, for a call that returns nothing; log: or null
  bool allowed() const noexcept { return allowed_; }  // false if the process is ending
  void require() const;                               // throws Error(cancelled) unless allowed
  ReportingInterrupt* interrupt() noexcept { return own_ ? &*own_ : nullptr; }

 private:
  friend class CallbackScope;
  CallScope* const outer_;
  int cancel_state_ = 0;
  const base::PlainArithmetic arithmetic_;
  const bool allowed_;
  std::optional<ReportingInterrupt> own_;  // for the host's own call, unless this thread ends the process
  const base::InterruptScope interrupted_by_;
};

// Keeps a failure from a place where nothing may be thrown, such as a callback's exception in the middle of a
// step: the call that runs on this thread stops as soon as it can and ends with it. The first failure counts.
void keep_failure(std::exception_ptr failure) noexcept;
bool has_failed() noexcept;

// Marks this thread's call as working for the runtime of this log. Lines that other threads logged meanwhile
// are delivered at its end.
class LogScope {
 public:
  explicit LogScope(std::shared_ptr<RuntimeLog> log) noexcept;
  ~LogScope();
  LogScope(const LogScope&) = delete;
  LogScope& operator=(const LogScope&) = delete;

 private:
  const std::shared_ptr<RuntimeLog> log_;
  RuntimeLog* const before_;
};

// Marks this thread as running a function of the host, with the host's floating-point settings, and without
// the memory budget of the run that calls it.
class CallbackScope {
 public:
  CallbackScope() noexcept;
  ~CallbackScope();
  CallbackScope(const CallbackScope&) = delete;
  CallbackScope& operator=(const CallbackScope&) = delete;

 private:
  const run::MemoryCapScope uncapped_{nullptr};
};

// Returns the interrupt of the host's own call on this thread; null: it has no call, or this is a call within
// a callback.
ReportingInterrupt* own_interrupt() noexcept;

bool inside_call() noexcept;      // and not in a callback
void mark_own_thread() noexcept;  // this one is the library's: no function of the host runs on it
bool on_own_thread() noexcept;
bool has_call() noexcept;            // this thread is in one, or in a callback of one
RuntimeLog* current_log() noexcept;  // of this thread's call, or null

}  // namespace trl::capi
