#include "model/kv_cache.h"

#include <algorithm>

#include "base/error.h"
#include "tensor/counted.h"
#include "tensor/device.h"

namespace trl::model {

void KvCache::reserve(int64_t more, int64_t kv_heads, int64_t head_dim, at::ScalarType compute,
                      at::Device device) {
  if (length > 0 && compute != type)
    fail(Status::invalid_argument, "a cache is used with two types of computation");
  type = compute;
  const bool made = !layers.empty() && layers.front().keys.defined();
  if (made && length + more <= capacity) return;
  const int64_t rows = std::max(length + more, made ? 2 * capacity : capacity);
  for (LayerCache& layer : layers) {
    for (at::Tensor* buffer : {&layer.keys, &layer.values}) {
      at::Tensor larger =
          tensor::empty({rows, kv_heads, head_dim}, compute, tensor::MemoryKind::workspace, device);
      if (length > 0) tensor::copy(buffer->narrow(0, 0, length), larger.narrow(0, 0, length));
      *buffer = std::move(larger);
    }
  }
  capacity = rows;
}

}  // namespace trl::model
