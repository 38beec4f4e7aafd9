// Process state of libtrl.so, and the host that the engine sees.
#include "capi/process/process.h"

#include <pthread.h>
#include <unistd.h>

#include "base/log.h"
#include "base/threads/polled_lock.h"
#include "base/threads/thread_pool.h"
#include "capi/process/ending.h"
#include "capi/runtime/mounts.h"
#include "capi/runtime/runtime.h"
#include "engine/error_capture.h"
#include "engine/open_engine.h"

namespace trl::capi {
namespace {

struct ThreadState {
  CallScope* call = nullptr;  // the innermost
  int callbacks = 0;
  int rollout = 0;  // the number of callbacks within the function that RolloutScope marks, itself included
  RuntimeLog* log = nullptr;
  bool own = false;
  std::exception_ptr failure;
};

ThreadState& thread_state() noexcept {
  thread_local ThreadState state;
  return state;
}

}  // namespace

// The process as the engine sees it. Log lines of the engine's own threads are delivered at the end of the
// next call that ends.
class EngineHost final : public engine::Host {
 public:
  explicit EngineHost(base::MemoryCounter& memory) : memory_(memory) {}
  void log(int32_t level, std::string_view component, std::string_view text) noexcept override {
    if (RuntimeLog* log = current_log()) {
      log->write(static_cast<base::LogLevel>(level), component, text);
      return;
    }
    try {
      const std::lock_guard lock(mutex_);
      if (waiting_.size() < kMostWaiting)
        waiting_.push_back({level, std::string(component), std::string(text)});
    } catch (...) {
      return;  // a line is lost if no memory is left for it
    }
  }
  void hand_over(RuntimeLog& log) noexcept {
    std::vector<Line> lines;
    {
      const std::lock_guard lock(mutex_);
      lines.swap(waiting_);
    }
    for (const Line& line : lines)
      log.write(static_cast<base::LogLevel>(line.level), line.component, line.text);
  }
  bool try_charge(int32_t kind, int64_t bytes) noexcept override {
    const auto of = static_cast<base::MemoryKind>(kind);
    run::MemoryCap* const cap = run::MemoryCap::current();
    if (cap == nullptr) return memory_.try_charge(of, bytes);
    const bool charged = memory_.try_charge(of, bytes, cap->counted());
    if (charged) cap->took(of);
    return charged;
  }
  int32_t why_refused(int32_t kind, int64_t bytes, engine::ErrorSink& why) noexcept override {
    const run::MemoryCap* const cap = run::MemoryCap::current();
    const int64_t limit = memory_.limit();
    if (cap == nullptr || (limit > 0 && limit <= cap->counted())) return 0;
    try {
      why.set(cap->passed(static_cast<base::MemoryKind>(kind), bytes));
    } catch (...) {
      return 0;  // no memory for the reason
    }
    return static_cast<int32_t>(Status::out_of_memory);
  }
  void release(int32_t kind, int64_t bytes) noexcept override {
    memory_.release(static_cast<base::MemoryKind>(kind), bytes);
  }
  int64_t memory_limit() noexcept override { return memory_.limit(); }
  int64_t memory_now() noexcept override { return memory_.now(); }
  int64_t memory_peak(int32_t kind) noexcept override {
    const run::MemoryCap* const cap = run::MemoryCap::current();
    const auto of = static_cast<base::MemoryKind>(kind);
    return cap != nullptr ? cap->most(of) : memory_.peak(of);
  }
  base::Interrupt* interrupt() noexcept override { return base::thread_interrupt(); }
  base::HostFiles* files() noexcept override { return &mounts(); }

 private:
  static constexpr size_t kMostWaiting = 1000;
  struct Line {
    int32_t level;
    std::string component, text;
  };
  base::MemoryCounter& memory_;
  std::mutex mutex_;
  std::vector<Line> waiting_;
};

Process::Process() : id_(::getpid()), host_(std::make_unique<EngineHost>(memory_)) {
  base::set_host_files(&mounts());
}
Process::~Process() = default;

bool Process::forked() const noexcept { return id_ != ::getpid(); }

void Process::join(const Settings& settings) {
  const std::lock_guard lock(mutex_);
  if (settings.memory_limit && runtimes_ > 0 && *settings.memory_limit != memory_.limit()) {
    throw Error(Status::busy,
                fmt::format("runtime.host_memory_limit: {} requested, but this process has {} while its "
                            "runtimes live; trl_runtime_set_memory_limit changes it",
                            *settings.memory_limit, memory_.limit()),
                "runtime.host_memory_limit");
  }
  // A runtime that requests no number accepts the current one, and keeps it too.
  const int64_t in_force = threads_.value_or(base::available_cpus());
  if (settings.threads && runtimes_ > 0 && *settings.threads != in_force) {
    throw Error(Status::busy,
                fmt::format("runtime.threads: {} requested, but this process has {} while its runtimes live",
                            *settings.threads, in_force),
                "runtime.threads");
  }
  if (settings.memory_limit) limit_memory("runtime.host_memory_limit", *settings.memory_limit);
  if (settings.threads) threads_ = settings.threads;
  ++runtimes_;
}

void Process::leave() noexcept {
  const std::lock_guard lock(mutex_);
  if (--runtimes_ > 0) return;
  threads_.reset();
  memory_.set_limit(0);
}

int Process::threads() {
  const std::lock_guard lock(mutex_);
  return threads_ ? static_cast<int>(*threads_) : base::available_cpus();
}

void Process::set_memory_limit(int64_t bytes) {
  const std::lock_guard lock(mutex_);
  limit_memory("bytes", bytes);
}

void Process::charge(base::MemoryKind kind, int64_t bytes) {
  const auto number = static_cast<int32_t>(kind);
  if (host_->try_charge(number, bytes)) return;
  engine::ErrorCapture why;
  why.check(host_->why_refused(number, bytes, why));
  memory_.charge(kind, bytes);
}

void Process::limit_memory(std::string_view name, int64_t bytes) {
  const int64_t now = memory_.now();
  if (bytes < 0 || (bytes > 0 && bytes < now)) {
    fail(Status::invalid_argument, "{}: {} is not a memory limit; 0 (none) or at least the {} bytes in use",
         name, bytes, now);
  }
  memory_.set_limit(bytes);
}

engine::Engine& Process::engine() {
  const int wanted = threads();
  std::unique_lock lock = base::polled_lock(engine_mutex_);
  if (engine_ == nullptr) {
    lock.unlock();  // a callback may wait for another thread of the host, which may come here too
    base::progress("engine", 0, 1);
    lock = base::polled_lock(engine_mutex_);
    if (engine_ == nullptr) ending().while_loading([&] { engine_ = &engine::open_engine(*host_); });
    lock.unlock();
    base::progress("engine", 1, 1);
    lock = base::polled_lock(engine_mutex_);
  }
  if (engine_threads_ != wanted) {
    engine::ErrorCapture error;
    error.check(engine_->set_threads(wanted, error));
    engine_threads_ = wanted;
  }
  return *engine_;
}

int32_t Process::use_engine(Use use, const std::function<int32_t()>& body) {
  constexpr int kFirst = 2;
  int32_t status = 0;
  if (uses_[static_cast<size_t>(use)].fetch_add(1) >= kFirst) return body();
  ending().while_first_used([&] { status = body(); });
  return status;
}

void Process::shut_down() {
  calls_.unlock_shared();  // held by this call
  const bool alone = calls_.try_lock();
  if (alone) {
    if (engine_ != nullptr) {
      engine::ErrorCapture error;
      engine_->end_threads(error);
      engine::end_blas_threads();
    }
    calls_.unlock();
  }
  calls_.lock_shared();
  if (!alone) fail(Status::busy, "another call is running in this process; shut down when none is");
}

Process& process() {
  static Process* const only = new Process;
  return *only;
}

RolloutScope::RolloutScope() noexcept
    : before_(std::exchange(thread_state().rollout, thread_state().callbacks + 1)) {}
RolloutScope::~RolloutScope() { thread_state().rollout = before_; }

void check_process() {
  if (!process().forked()) return;
  fail(Status::busy,
       "forked: the library was in use before this process was forked; start it with exec instead");
}

void check_entry(bool in_rollout) {
  check_process();
  const ThreadState& state = thread_state();
  if (state.callbacks == 0 || (in_rollout && state.callbacks == state.rollout)) return;
  fail(Status::busy,
       "called inside a callback, where only functions without the parameter `error` may be, and those whose "
       "contract in trl.h says \"also in callbacks\": trl_config_*, trl_record_*, trl_rollout_*, "
       "trl_tokenizer_* except _open, trl_model_describe, trl_model_from_trainer, trl_runtime_memory, "
       "trl_trainer_describe, _get_integers and _set_learning_rate; and, in the function of "
       "trl_trainer_set_rollout until its rollout is finished, those of a generator of its trainer");
}

CallScope::CallScope() noexcept
    : outer_(thread_state().call),
      allowed_(ending().enter()),
      interrupted_by_(ending().on_this_thread() ? nullptr
                      : outer_ != nullptr       ? base::thread_interrupt()
                                                : &own_.emplace()) {
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state_);
  if (outer_ == nullptr) {
    process().calls().lock_shared();
    thread_state().failure = nullptr;
  }
  thread_state().call = this;
}

CallScope::~CallScope() {
  ThreadState& state = thread_state();
  state.call = outer_;
  if (outer_ == nullptr) {
    process().calls().unlock_shared();
    state.failure = nullptr;
  }
  if (allowed_) ending().leave();
  pthread_setcancelstate(cancel_state_, nullptr);
}

void CallScope::require() const {
  if (!allowed_) fail(Status::cancelled, "the process is ending");
}

void CallScope::throw_failure() const {
  if (outer_ == nullptr && thread_state().failure) std::rethrow_exception(thread_state().failure);
}

void CallScope::log_failure(RuntimeLog* log) const noexcept {
  try {
    throw_failure();
  } catch (const std::exception& error) {
    thread_state().failure = nullptr;
    if (log != nullptr) log->write(base::LogLevel::error, "callback", error.what());
  }
}

void keep_failure(std::exception_ptr failure) noexcept {
  if (!has_failed()) thread_state().failure = std::move(failure);
  if (base::Interrupt* const own = base::thread_interrupt()) own->fail();
}

bool has_failed() noexcept { return thread_state().failure != nullptr; }

LogScope::LogScope(std::shared_ptr<RuntimeLog> log) noexcept
    : log_(std::move(log)), before_(thread_state().log) {
  thread_state().log = log_.get();
}
LogScope::~LogScope() {
  process().hand_over(*log_);
  if (!on_own_thread()) log_->drain();
  thread_state().log = before_;
}

CallbackScope::CallbackScope() noexcept {
  ++thread_state().callbacks;
  if (const CallScope* call = thread_state().call) std::fesetenv(&call->arithmetic_.before());
  ending().go_out();
}

CallbackScope::~CallbackScope() {
  ending().come_back();
  --thread_state().callbacks;
  if (thread_state().call != nullptr) std::fesetenv(FE_DFL_ENV);
}

ReportingInterrupt* own_interrupt() noexcept {
  CallScope* const call = thread_state().call;
  return call != nullptr ? call->interrupt() : nullptr;
}

bool has_call() noexcept { return thread_state().call != nullptr; }
bool inside_call() noexcept { return thread_state().call != nullptr && thread_state().callbacks == 0; }
void mark_own_thread() noexcept { thread_state().own = true; }
bool on_own_thread() noexcept { return thread_state().own; }
RuntimeLog* current_log() noexcept { return thread_state().log; }

void Process::hand_over(RuntimeLog& log) noexcept { host_->hand_over(log); }

}  // namespace trl::capi
