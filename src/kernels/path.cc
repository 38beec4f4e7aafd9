#include "kernels/path.h"

#include "tensor/threads/openmp_threads.h"
#include "tensor/threads/parallel.h"
#include "tensor/threads/width.h"

namespace trl::kernels {

namespace {
thread_local Path current = Path::fused;
}

Path path() { return current; }

PathScope::PathScope(Path path) : before_(current) {
  if (path == Path::plain) {
    tensor::start_blas_threads();
    of_libtorch_.emplace(tensor::all_threads());
  }
  current = path;
}
PathScope::~PathScope() { current = before_; }

}  // namespace trl::kernels
