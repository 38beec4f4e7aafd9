#include "model/decoding/kv_memory.h"

#include <algorithm>

#include "tensor/memory/counted.h"

namespace trl::model {

namespace {
// A slab has as many blocks as this many bytes hold, at least one.
constexpr int64_t kSlabBytes = int64_t{4} << 20;
}  // namespace

KvMemory::KvMemory(int64_t layers, const kernels::CacheShape& shape, at::Device device)
    : layers_(layers), layer_bytes_(kernels::cache_bytes(shape, device)), int8_(shape.int8), device_(device) {
  in_slab_ = std::max<int64_t>(1, kSlabBytes / block_bytes());
}

int64_t KvMemory::bytes() const {
  return in_slab_ * block_bytes() *
         std::ranges::count_if(slabs_, [](const at::Tensor& slab) { return slab.defined(); });
}

const at::Tensor& KvMemory::block(int32_t id) {
  const auto place = static_cast<size_t>(id), slab = place / static_cast<size_t>(in_slab_);
  if (place < blocks_.size() && blocks_[place].defined()) return blocks_[place];
  at::Tensor memory = slab < slabs_.size() ? slabs_[slab] : at::Tensor();
  if (!memory.defined())
    memory =
        tensor::empty({in_slab_, layers_, layer_bytes_}, at::kByte, tensor::MemoryKind::workspace, device_);
  if (slab >= slabs_.size()) slabs_.resize(slab + 1);
  if (place >= blocks_.size()) blocks_.resize(place + 1);
  slabs_[slab] = memory;
  return blocks_[place] = memory[id % in_slab_];
}

bool KvMemory::has(int32_t id) const {
  const auto slab = static_cast<size_t>(id / in_slab_);
  return slab < slabs_.size() && slabs_[slab].defined();
}

int64_t KvMemory::release(const std::function<bool(int32_t)>& in_use) {
  int64_t freed = 0;
  for (size_t slab = 0; slab < slabs_.size(); ++slab) {
    if (!slabs_[slab].defined()) continue;
    const auto first = static_cast<int32_t>(static_cast<int64_t>(slab) * in_slab_);
    bool used = false;
    for (int32_t id = first; id < first + in_slab_ && !used; ++id) used = in_use(id);
    if (used) continue;
    const auto end = std::min<int64_t>(first + in_slab_, std::ssize(blocks_));
    for (int64_t id = first; id < end; ++id) blocks_[static_cast<size_t>(id)] = at::Tensor();
    slabs_[slab] = at::Tensor();
    freed += in_slab_ * block_bytes();
  }
  return freed;
}

}  // namespace trl::model
