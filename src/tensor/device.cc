#include "tensor/device.h"

#include <ATen/detail/CUDAHooksInterface.h>

#include "tensor/memory/counted.h"
#include "tensor/memory/rehearsal.h"

namespace trl::tensor {

at::Device device(bool use_cpu) {
  return !use_cpu && at::hasCUDA() ? at::Device(at::kCUDA, 0) : at::Device(at::kCPU);
}

at::Tensor on_host(const at::Tensor& x) {
  if (x.is_cpu()) return x;
  at::Tensor copy = empty(x.sizes(), x.scalar_type(), MemoryKind::workspace);
  return copy.copy_(x);
}

void copy_bytes(const at::Tensor& to, const void* from) {
  if (to.is_cpu())
    std::memcpy(to.data_ptr(), from, to.nbytes());
  else
    to.copy_(at::from_blob(const_cast<void*>(from), to.sizes(), at::TensorOptions().dtype(to.scalar_type())));
}

void copy(const at::Tensor& from, const at::Tensor& to) {
  if (Rehearsal::current() != nullptr) return;
  if (to.is_cpu())
    std::memcpy(to.data_ptr(), from.data_ptr(), to.nbytes());
  else
    to.copy_(from);
}

void finish(const at::Tensor& x) {
  if (x.is_cuda()) at::detail::getCUDAHooks().deviceSynchronize(x.get_device());
}

}  // namespace trl::tensor
