#include "tensor/threads/parallel.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>

#include "base/threads/thread_pool.h"
#include "tensor/process_state.h"
#include "tensor/threads/width.h"

namespace trl::tensor {

namespace {

struct Width {
  std::atomic<int> threads{base::available_cpus()};
  // Threads that are lent to those with a share, and how many these are; `until`: the time, in steady_clock's
  // units, at which the last of them no longer needs them.
  std::atomic<int> lent{0}, serving{0};
  std::atomic<int64_t> until{0};
};

constexpr std::chrono::milliseconds kLinger{5};

thread_local constinit int own_width = 0;  // 0: this thread has no share

int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

int threads_left(Width& width, int all) {
  const int lent = width.lent.load(std::memory_order_relaxed);
  if (lent == 0) return all;
  if (width.serving.load(std::memory_order_relaxed) == 0 &&
      now() > width.until.load(std::memory_order_relaxed)) {
    return all;
  }
  return std::max(1, all - lent);
}

}  // namespace

void set_threads(int threads) {
  process_state<Width>().threads.store(threads < 1 ? base::available_cpus() : threads);
}

int all_threads() { return process_state<Width>().threads.load(std::memory_order_relaxed); }

int threads() {
  Width& width = process_state<Width>();
  const int all = width.threads.load(std::memory_order_relaxed);
  return own_width > 0 ? std::min(own_width, all) : threads_left(width, all);
}

WidthScope::WidthScope(double share) : before_(own_width) {
  Width& width = process_state<Width>();
  const int all = all_threads();
  own_width = std::clamp(static_cast<int>(std::lround(share * all)), 1, std::max(1, all - 1));
  ++width.serving;
  width.lent.store(own_width, std::memory_order_relaxed);
}

WidthScope::~WidthScope() {
  Width& width = process_state<Width>();
  width.until.store(now() + std::chrono::steady_clock::duration(kLinger).count(), std::memory_order_relaxed);
  --width.serving;
  own_width = before_;
}

}  // namespace trl::tensor
