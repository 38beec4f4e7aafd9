// The device of weights and of values computed from them, and copies from and to the host. Only this file
// asks which devices exist; all other code uses the device of the tensors it is given. Batches stay on the
// host, where their ids are checked; an op that needs them on another device copies them.
#pragma once
#include <ATen/ATen.h>

namespace trl::tensor {

// The first GPU of this process if libtorch has CUDA and use_cpu is false; else the CPU.
at::Device device(bool use_cpu);

at::Tensor on_host(const at::Tensor& x);  // x itself, or a counted copy
// Copies the bytes of `to`, which is contiguous, from the host.
void copy_bytes(const at::Tensor& to, const void* from);
// Both of one type and size, contiguous, on one device. A rehearsal copies nothing.
void copy(const at::Tensor& from, const at::Tensor& to);
void finish(const at::Tensor& x);  // waits until its device has computed it

}  // namespace trl::tensor
