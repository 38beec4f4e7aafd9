// Enforces memory_budget: limits what the calls of a run may take, and words the error when that is not
// enough.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>

#include "base/error.h"
#include "base/memory/memory.h"
#include "engine/engine.h"

namespace trl::run {

class MemoryCap {
 public:
  // budget: resident bytes of the process. predicted: of the run, which has taken nothing yet.
  MemoryCap(int64_t budget, const engine::Prediction& predicted, const base::MemoryCounter& counter);

  static MemoryCap* current() noexcept { return current_; }  // of this thread, or null
  int64_t counted() const noexcept { return counted_; }      // that the counter may reach
  void took(base::MemoryKind kind) noexcept;                 // what the counter has now is the run's
  int64_t most(base::MemoryKind kind) const noexcept;        // that it had so far
  // What to say of an allocation that does not fit: what is in use beside what was predicted, kind by kind.
  Error passed(base::MemoryKind kind, int64_t bytes) const;

 private:
  friend class MemoryCapScope;
  static inline constinit thread_local MemoryCap* current_ = nullptr;
  const base::MemoryCounter& counter_;
  const int64_t budget_, process_;
  const int64_t counted_;
  std::array<std::atomic<int64_t>, base::kMemoryKinds> most_{};
  std::array<int64_t, base::kMemoryKinds> predicted_;  // the most, with what others in the process have
};

// Of what this thread takes meanwhile; null: of nothing.
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
