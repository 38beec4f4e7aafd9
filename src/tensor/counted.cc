#include "tensor/counted.h"

#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>

#include "base/error.h"
#include "tensor/block_pool.h"
#include "tensor/process.h"

namespace trl::tensor {

namespace {

BlockPool& pool() { return process_state<BlockPool>(); }

void give_back(void* context) {
  auto* const block = static_cast<Block*>(context);
  pool().give(*block);
  delete block;
}

int64_t byte_count(at::IntArrayRef sizes, at::ScalarType type) {
  int64_t bytes = static_cast<int64_t>(c10::elementSize(type));
  for (const int64_t size : sizes) {
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) {
      fail(Status::invalid_argument, "a tensor of {} dimensions is too large or has a negative one",
           sizes.size());
    }
  }
  return bytes;
}

}  // namespace

void set_host(engine::Host* host) { pool().set_host(host); }
void trim() { pool().trim(); }
bool has_memory_limit() { return pool().has_limit(); }

// The storage is made by hand, and not by an allocator of torch's, so that an Error is thrown outside torch.
at::Tensor empty(at::IntArrayRef sizes, at::ScalarType type, MemoryKind kind, at::Device device) {
  if (!device.is_cpu()) return at::empty(sizes, at::TensorOptions(device).dtype(type));
  const int64_t bytes = byte_count(sizes, type);
  auto block = std::make_unique<Block>();  // before what it owns
  *block = pool().take(bytes, kind);
  void* const data = block->data;
  c10::DataPtr pointer(data, block.release(), &give_back, c10::Device(c10::DeviceType::CPU));
  c10::Storage storage(c10::Storage::use_byte_size_t(), static_cast<size_t>(bytes), std::move(pointer),
                       /*allocator=*/nullptr, /*resizable=*/false);
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(type));
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return tensor;
}

at::Tensor zeros(at::IntArrayRef sizes, at::ScalarType type, MemoryKind kind, at::Device device) {
  at::Tensor tensor = empty(sizes, type, kind, device);
  if (!device.is_cpu()) return tensor.zero_();
  std::memset(tensor.data_ptr(), 0, static_cast<size_t>(tensor.nbytes()));
  return tensor;
}

at::Tensor empty_like(const at::Tensor& tensor, MemoryKind kind) {
  return empty(tensor.sizes(), tensor.scalar_type(), kind, tensor.device());
}

}  // namespace trl::tensor
