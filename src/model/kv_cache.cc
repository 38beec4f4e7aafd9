#include "model/kv_cache.h"

#include <algorithm>

#include "base/error.h"
#include "tensor/device.h"
#include "tensor/memory/counted.h"

namespace trl::model {

namespace {
constexpr int64_t kPageRows = 256;
}

void LayerCache::write(int64_t position, const at::Tensor& keys, const at::Tensor& values) {
  int64_t done = 0;
  for (const kernels::KeyValues& page : pages) {
    const int64_t rows = page.keys.size(0), count = std::min(rows - position, keys.size(0) - done);
    if (count > 0) {
      tensor::copy(keys.narrow(0, done, count), page.keys.narrow(0, position, count));
      tensor::copy(values.narrow(0, done, count), page.values.narrow(0, position, count));
      done += count;
    }
    position = std::max<int64_t>(0, position - rows);
  }
}

void KvCache::reserve(int64_t more, int64_t kv_heads, int64_t head_dim, at::ScalarType compute,
                      at::Device device) {
  if (length > 0 && compute != type)
    fail(Status::invalid_argument, "a cache is used with two types of computation");
  const int64_t held = compute == type ? capacity : 0;
  const int64_t missing = length + more - held;
  if (missing <= 0) return;
  const int64_t rows = std::max(missing, held == 0 ? first_rows : kPageRows);
  const at::Tensor page = tensor::empty({static_cast<int64_t>(layers.size()), 2, rows, kv_heads, head_dim},
                                        compute, tensor::MemoryKind::workspace, device);
  std::vector<LayerCache> larger(layers.size());
  for (size_t i = 0; i < larger.size(); ++i) {
    if (held > 0) larger[i] = layers[i];
    const at::Tensor layer = page.select(0, static_cast<int64_t>(i));
    larger[i].pages.push_back({layer.select(0, 0), layer.select(0, 1)});
  }
  layers.swap(larger);
  capacity = held + rows;
  type = compute;
}

}  // namespace trl::model
