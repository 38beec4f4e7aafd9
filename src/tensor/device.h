// Where weights and what is computed from them live, and the way from and to the host. The one place that
// asks which devices there are; all other code uses the device of the tensors it is given. Batches stay on
// the host, where their ids are checked, and an op that needs them elsewhere takes them there.
#pragma once
#include <ATen/ATen.h>

namespace trl::tensor {

// The first GPU of this process, when libtorch has CUDA and use_cpu is not asked for; else the CPU.
at::Device device(bool use_cpu);

at::Tensor on_host(const at::Tensor& x);                  // x itself, or a counted copy
void copy_bytes(const at::Tensor& to, const void* from);  // as many as `to` has, contiguous; from the host
// Of one type and size, both contiguous, on one device. A rehearsal copies nothing.
void copy(const at::Tensor& from, const at::Tensor& to);

}  // namespace trl::tensor
