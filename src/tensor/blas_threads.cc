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

int set_mkl_threads(int threads) {
  struct Mkl {
    int (*set_threads)(int) = nullptr;
    Mkl() {
      void* const torch = ::dlopen("libtorch_cpu.so", RTLD_NOW | RTLD_NOLOAD);
      if (torch == nullptr) return;
      set_threads = reinterpret_cast<int (*)(int)>(::dlsym(torch, "MKL_Set_Num_Threads_Local"));
      const auto set_dynamic = reinterpret_cast<void (*)(int)>(::dlsym(torch, "MKL_Set_Dynamic"));
      if (set_dynamic != nullptr) set_dynamic(0);  // as many threads as were asked for
      ::dlclose(torch);
    }
  };
  static const Mkl mkl;
  return mkl.set_threads != nullptr ? mkl.set_threads(threads) : 0;
}

}  // namespace trl::tensor
