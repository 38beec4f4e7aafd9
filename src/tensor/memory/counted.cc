#include "tensor/memory/counted.h"

#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>

#include "base/error.h"
#include "base/memory/system_memory.h"
#include "tensor/memory/block_pool.h"
#include "tensor/memory/charge.h"
#include "tensor/memory/libtorch_memory.h"
#include "tensor/memory/rehearsal.h"
#include "tensor/process_state.h"

namespace trl::tensor {

namespace {

BlockPool& real_pool() { return process_state<BlockPool>(); }
BlockPool& pool() {
  Rehearsal* const rehearsal = Rehearsal::current();
  return rehearsal != nullptr ? rehearsal->state()->pool : real_pool();
}

void give_back(void* context) {
  auto* const block = static_cast<Block*>(context);
  real_pool().give(*block);
  delete block;
}

// A block of a rehearsal, which it may outlive.
struct RehearsedBlock {
  Block block;
  std::shared_ptr<Rehearsal::State> state;
  size_t number = 0;
};

void give_back_rehearsed(void* context) {
  const std::unique_ptr<RehearsedBlock> taken(static_cast<RehearsedBlock*>(context));
  taken->state->give(taken->number);
  taken->state->pool.give(taken->block);
}

c10::DataPtr rehearsed(int64_t bytes, MemoryKind kind, Rehearsal& rehearsal) {
  auto taken = std::make_unique<RehearsedBlock>();
  taken->state = rehearsal.state();
  taken->block = taken->state->pool.take(bytes, kind);
  taken->number = taken->state->take(kind, taken->block.bytes, taken->state->stage);
  void* const data = taken->block.data;
  return {data, taken.release(), &give_back_rehearsed, c10::Device(c10::DeviceType::CPU)};
}

c10::DataPtr real(int64_t bytes, MemoryKind kind, bool cleared) {
  auto block = std::make_unique<Block>();  // allocated before the block that it owns
  *block = real_pool().take(bytes, kind);
  if (cleared && !block->zero) std::memset(block->data, 0, static_cast<size_t>(bytes));
  void* const data = block->data;
  return {data, block.release(), &give_back, c10::Device(c10::DeviceType::CPU)};
}

// Whose counter there is; null: the pool's own, without limit.
struct Lender {
  engine::Host* host = nullptr;
};

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

void set_host(engine::Host* host) {
  process_state<Lender>().host = host;
  real_pool().set_host(host);
}
void trim() { pool().trim(); }
bool has_memory_limit() { return real_pool().has_limit(); }

namespace {

// Makes the storage by hand, not by an allocator of torch's, so that an Error is thrown outside torch.
at::Tensor on_cpu(at::IntArrayRef sizes, at::ScalarType type, MemoryKind kind, bool cleared) {
  const int64_t bytes = byte_count(sizes, type);
  Rehearsal* const rehearsal = Rehearsal::current();
  c10::DataPtr pointer =
      rehearsal != nullptr ? rehearsed(bytes, kind, *rehearsal) : real(bytes, kind, cleared);
  c10::Storage storage(c10::Storage::use_byte_size_t(), static_cast<size_t>(bytes), std::move(pointer),
                       /*allocator=*/nullptr, /*resizable=*/false);
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(type));
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(sizes);
  return tensor;
}

}  // namespace

at::Tensor empty(at::IntArrayRef sizes, at::ScalarType type, MemoryKind kind, at::Device device) {
  if (!device.is_cpu()) return at::empty(sizes, at::TensorOptions(device).dtype(type));
  return on_cpu(sizes, type, kind, false);
}

at::Tensor zeros(at::IntArrayRef sizes, at::ScalarType type, MemoryKind kind, at::Device device) {
  if (!device.is_cpu()) return at::zeros(sizes, at::TensorOptions(device).dtype(type));
  return on_cpu(sizes, type, kind, true);
}

at::Tensor empty_like(const at::Tensor& tensor, MemoryKind kind) {
  return empty(tensor.sizes(), tensor.scalar_type(), kind, tensor.device());
}

LibtorchMemory::LibtorchMemory(int64_t bytes) {
  if (bytes == 0) return;
  if (Rehearsal::current() != nullptr) {
    const Stage stage(kLibtorchMemory.data());
    rehearsed_ = empty({bytes}, at::kByte, MemoryKind::workspace);
    return;
  }
  trim();  // stored blocks would count beside it
  engine::Host* const host = process_state<Lender>().host;
  if (host == nullptr) return;
  charge(*host, bytes, MemoryKind::workspace);
  charged_ = bytes;
}

LibtorchMemory::~LibtorchMemory() {
  if (charged_ == 0) return;
  base::give_back_heap();  // malloc would keep twice the largest block
  process_state<Lender>().host->release(static_cast<int32_t>(MemoryKind::workspace), charged_);
}

GivesBack::~GivesBack() {
  if (Rehearsal::current() != nullptr) return;
  trim();
  base::give_back_heap();
}

}  // namespace trl::tensor
