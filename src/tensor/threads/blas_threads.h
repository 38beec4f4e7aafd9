// The threads of OpenBLAS, which libtorch's own products on the CPU use and the fused kernels do not.
#pragma once

namespace trl::tensor {

// Starts them where they are not running. The first product would start them otherwise, without a name, and
// to take the signals of the thread that computes it. engine::end_blas_threads() ends them.
void start_blas_threads();

}  // namespace trl::tensor
