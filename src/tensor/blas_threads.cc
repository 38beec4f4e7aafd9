#include "tensor/blas_threads.h"

#include <dlfcn.h>

#include "base/quiet_thread.h"

namespace trl::tensor {

void start_blas_threads() {
  void* const blas = ::dlopen("libopenblas.so.0", RTLD_NOW | RTLD_NOLOAD);
  if (blas == nullptr) return;  // another BLAS, with libgomp's threads or none
  const base::StartingThreads quiet("trl-blas");
  if (const auto start = reinterpret_cast<int (*)()>(::dlsym(blas, "blas_thread_init"))) start();
  ::dlclose(blas);
}

}  // namespace trl::tensor
