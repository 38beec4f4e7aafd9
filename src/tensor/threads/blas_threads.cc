#include "tensor/threads/blas_threads.h"

#include <dlfcn.h>

#include "base/threads/quiet_thread.h"

namespace trl::tensor {

void start_blas_threads() {
  // MKL, in a libtorch other than Debian's, would use fewer of libgomp's threads for a product, and so end
  // some.
  if (const auto choose = reinterpret_cast<void (*)(int)>(::dlsym(RTLD_DEFAULT, "MKL_Set_Dynamic")))
    choose(0);
  void* const blas = ::dlopen("libopenblas.so.0", RTLD_NOW | RTLD_NOLOAD);
  if (blas == nullptr) return;  // another BLAS, with libgomp's threads or without threads
  const base::StartingThreads quiet("trl-blas");
  if (const auto start = reinterpret_cast<int (*)()>(::dlsym(blas, "blas_thread_init"))) start();
  ::dlclose(blas);
}

}  // namespace trl::tensor
