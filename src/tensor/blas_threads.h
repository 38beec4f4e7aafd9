// The threads of the library that libtorch's own products on the CPU use, and the fused kernels do not:
// OpenBLAS (Debian) or MKL (PyPI's libtorch 2.x).
#pragma once

namespace trl::tensor {

// Starts them where they are not running. The first product would start them otherwise, without a name, and
// to take the signals of the thread that computes it. engine::end_blas_threads() ends them.
void start_blas_threads();

// MKL's products on this thread use as many threads as are asked for: libgomp ends and starts threads where
// the teams of two regions differ in size. Returns the number before, 0 for MKL's own choice; without MKL
// nothing is done.
int set_mkl_threads(int threads);

}  // namespace trl::tensor
