// Reads the memory available to this process, as Linux reports it, and memory_budget.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

#include "base/error.h"
#include "base/memory/memory.h"
#include "config/config.h"
#include "engine/trainer.h"
#include "run/environment.h"
#include "telemetry/run_plan.h"

namespace trl::run {

// Returns memory_budget: resident bytes of the process; nullopt: no budget is set. auto: the free memory of
// the machine, or the cgroup, less a margin. Never above runtime.host_memory_limit, nor above the cgroup's
// limit; both give a warning.
std::optional<int64_t> memory_budget(Environment& environment, const config::Config& config);

// Returns the bytes that the process may still take under memory_budget, runtime.host_memory_limit, the
// cgroup and the free memory of the machine; at least 0.
int64_t memory_left(Environment& environment, const config::Config& config);

// Returns the memory that a process may take, with a warning if that is less than its predicted peak.
telemetry::RunPlan::Room memory_room(int64_t peak);

// Enforces memory_budget: limits the memory of the calls of a run, and words the error if it is not enough.
class MemoryCap {
 public:
  // budget: resident bytes of the process. predicted: of the run, which has taken no memory yet.
  MemoryCap(int64_t budget, const engine::Prediction& predicted, const base::MemoryCounter& counter);

  static MemoryCap* current() noexcept { return current_; }  // of this thread, or null
  int64_t counted() const noexcept { return counted_; }      // the counter's limit
  void took(base::MemoryKind kind) noexcept;                 // the counter's bytes now belong to the run
  int64_t most(base::MemoryKind kind) const noexcept;        // the highest so far
  // Describes an allocation that does not fit: the memory in use and the predicted memory, kind by kind.
  Error passed(base::MemoryKind kind, int64_t bytes) const;

 private:
  friend class MemoryCapScope;
  static inline constinit thread_local MemoryCap* current_ = nullptr;
  const base::MemoryCounter& counter_;
  const int64_t budget_, process_;
  const int64_t counted_;
  std::array<std::atomic<int64_t>, base::kMemoryKinds> most_{};
  std::array<int64_t, base::kMemoryKinds> predicted_;  // peaks, including the memory of others in the process
};

// Applies a cap to the allocations of this thread during its life; null: no cap.
class MemoryCapScope {
 public:
  explicit MemoryCapScope(MemoryCap* cap) noexcept : before_(MemoryCap::current_) {
    MemoryCap::current_ = cap;
  }
  ~MemoryCapScope() { MemoryCap::current_ = before_; }
  MemoryCapScope(const MemoryCapScope&) = delete;
  MemoryCapScope& operator=(const MemoryCapScope&) = delete;

 private:
  MemoryCap* const before_;
};

}  // namespace trl::run
