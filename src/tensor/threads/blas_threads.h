// The threads of OpenBLAS, which only libtorch's own products on the CPU use; the fused kernels do not.
#pragma once

namespace trl::tensor {

// Starts them if they are not running. Otherwise the first product would start them, without a name, and with
// the signals of the thread that computes it unblocked. engine::end_blas_threads() ends them.
void start_blas_threads();

}  // namespace trl::tensor
