#include "tensor/threads/openmp_threads.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <omp.h>

#include "base/threads/thread_pool.h"
#include "engine/blas.h"

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

void start_blas_threads() {
  // MKL, in a libtorch other than Debian's, would use fewer of libgomp's threads for a product, and so end
  // some.
  if (const auto choose = reinterpret_cast<void (*)(int)>(::dlsym(RTLD_DEFAULT, "MKL_Set_Dynamic")))
    choose(0);
  void* blas = ::dlopen(engine::kBundledBlas, RTLD_NOW | RTLD_NOLOAD);
  if (blas == nullptr) blas = ::dlopen(engine::kBlas, RTLD_NOW | RTLD_NOLOAD);
  if (blas == nullptr) return;  // another BLAS, with libgomp's threads or without threads
  const base::StartingThreads quiet("trl-blas");
  if (const auto start = reinterpret_cast<int (*)()>(::dlsym(blas, "blas_thread_init"))) start();
  ::dlclose(blas);
}

}  // namespace trl::tensor
