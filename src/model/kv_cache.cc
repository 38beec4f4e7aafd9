#include "model/kv_cache.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "tensor/counted.h"

namespace trl::model {

void KvCache::reserve(int64_t more, int64_t kv_heads, int64_t head_dim, at::ScalarType compute) {
  if (length > 0 && compute != type)
    fail(Status::invalid_argument, "a cache is used with two types of computation");
  type = compute;
  const bool made = !layers.empty() && layers.front().keys.defined();
  if (made && length + more <= capacity) return;
  const int64_t rows = std::max(length + more, made ? 2 * capacity : capacity);
  for (LayerCache& layer : layers) {
    for (at::Tensor* buffer : {&layer.keys, &layer.values}) {
      at::Tensor larger = tensor::empty({rows, kv_heads, head_dim}, compute, tensor::MemoryKind::workspace);
      if (length > 0)
        std::memcpy(larger.data_ptr(), buffer->data_ptr(),
                    static_cast<size_t>(length * kv_heads * head_dim) * larger.element_size());
      *buffer = std::move(larger);
    }
  }
  capacity = rows;
}

}  // namespace trl::model
