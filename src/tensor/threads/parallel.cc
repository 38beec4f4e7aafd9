#include "tensor/threads/parallel.h"

#include <atomic>

#include "base/threads/thread_pool.h"
#include "tensor/process_state.h"

namespace trl::tensor {

namespace {

struct Width {
  std::atomic<int> threads{base::available_cpus()};
};

}  // namespace

void set_threads(int threads) {
  process_state<Width>().threads.store(threads < 1 ? base::available_cpus() : threads);
}
int threads() { return process_state<Width>().threads.load(std::memory_order_relaxed); }

}  // namespace trl::tensor
