#include "tensor/threads/openmp_threads.h"

#include <ATen/Parallel.h>
#include <omp.h>

#include "base/threads/quiet_thread.h"

namespace trl::tensor {

namespace {

void name_member() {
  static thread_local bool named = false;
  if (named || omp_get_thread_num() == 0) return;
  base::name_thread(fmt::format("trl-openmp-{}", omp_get_thread_num()));
  named = true;
}

}  // namespace

void set_openmp_threads(int threads) {
  at::internal::lazy_init_num_threads();  // sets libtorch's default at its first use on a thread
  omp_set_num_threads(threads);
}

// Starts the threads in a first, empty region, while the caller's signals are blocked too: they inherit its
// mask.
OpenMpThreads::OpenMpThreads(int threads) : before_(omp_get_max_threads()) {
  if (omp_in_parallel()) return;
  set_openmp_threads(threads);
  if (threads == 1) return;
  const base::NoSignals quiet;
#pragma omp parallel num_threads(threads)
  name_member();
}

OpenMpThreads::~OpenMpThreads() {
  if (!omp_in_parallel()) omp_set_num_threads(before_);
}

void end_openmp_threads() { omp_pause_resource_all(omp_pause_hard); }

}  // namespace trl::tensor
