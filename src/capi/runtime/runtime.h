// A runtime of the host.
#pragma once
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/threads/thread_pool.h"
#include "capi/callback.h"
#include "capi/handle.h"
#include "capi/process/process.h"
#include "capi/runtime/mounts.h"
#include "config/config.h"
#include "run/environment.h"
#include "trl/trl.h"

namespace trl::capi {

// The log of one runtime. Lines written on a thread inside a call go to the host's callback at once; lines of
// other threads wait until a thread is inside a call. Without a callback nothing is kept.
class RuntimeLog final : public base::LogSink {
 public:
  void set(Callback<trl_log_fn> callback);
  void write(base::LogLevel level, std::string_view component, std::string_view text) noexcept override;
  void drain() noexcept;  // call on a thread inside a call

 private:
  struct Line {
    base::LogLevel level;
    std::string component, text;
  };
  using Shared = std::shared_ptr<const Callback<trl_log_fn>>;
  static void deliver(const Shared& callback, const Line& line) noexcept;
  std::mutex mutex_;
  Shared callback_;
  std::vector<Line> waiting_;
};

// A runtime: the log, the worker pool for text and data, and its share in the process-wide settings.
class Runtime final : public run::Environment, public KeptTexts {
 public:
  explicit Runtime(const config::Config& config);  // reads the group `runtime`
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
  engine::Engine& engine() override { return process().engine(); }
  int32_t use_engine(Use use, const std::function<int32_t()>& body) override {
    return process().use_engine(use, body);
  }
  base::MemoryCounter& memory() override { return process().memory(); }
  base::Interrupt& background() override { return process().background(); }
  int threads() override { return process().threads(); }
  base::ThreadPool& pool() override { return pool_; }
  RuntimeLog& log() override { return *log_; }
  const std::shared_ptr<RuntimeLog>& shared_log() const { return log_; }
  std::shared_ptr<const ProgressCallback> progress() const;  // or null
  void set_progress(ProgressCallback callback);
  void hold(std::shared_ptr<const Mount> mount);  // as long as this lives
  const char* describe();                         // JSON; opens the engine

 private:
  const std::shared_ptr<RuntimeLog> log_ = std::make_shared<RuntimeLog>();
  base::ThreadPool pool_;
  mutable std::mutex mutex_;
  std::shared_ptr<const ProgressCallback> progress_;
  std::vector<std::shared_ptr<const Mount>> mounts_;
};

}  // namespace trl::capi

struct trl_runtime : trl::capi::Handle<trl::capi::Runtime, trl::capi::Tag::runtime> {
  using Handle::Handle;
};

namespace trl::capi {

// Marks this thread's call as working for a runtime: it has that runtime's log and progress callback, and
// ends with trl_runtime_cancel.
class RuntimeScope {
 public:
  explicit RuntimeScope(const Runtime& runtime);

 private:
  const LogScope log_;
};

// Returns the runtime of a function's parameter: NULL makes a quiet one.
std::shared_ptr<Runtime> runtime_of(const trl_runtime* runtime);

}  // namespace trl::capi
