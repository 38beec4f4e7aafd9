// A request to stop at the next safe point. One atomic store; async-signal-safe; any thread.
#pragma once
#include <atomic>

#include "base/error.h"

namespace trl::base {

class CancelToken {
 public:
  void cancel() noexcept { flag_.store(1, std::memory_order_relaxed); }
  void clear() noexcept { flag_.store(0, std::memory_order_relaxed); }
  bool cancelled() const noexcept { return flag_.load(std::memory_order_relaxed) != 0; }
  void check() const {
    if (cancelled()) throw Error(Status::cancelled, "cancelled");
  }

 private:
  std::atomic<int> flag_{0};
  static_assert(std::atomic<int>::is_always_lock_free);
};

}  // namespace trl::base
