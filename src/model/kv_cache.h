// Keys and values of one sequence, layer by layer, in buffers that grow as the sequence does.
#pragma once
#include <ATen/ATen.h>

#include <vector>

namespace trl::model {

struct LayerCache {
  at::Tensor keys, values;  // [capacity, kv_heads, head_dim], in the type of the computation
};

struct KvCache {
  int64_t length = 0;    // positions held, the same in every layer
  int64_t capacity = 0;  // rows of each buffer
  at::ScalarType type = at::kFloat;
  std::vector<LayerCache> layers;

  // Room for `more` further positions; doubles the buffers when needed. The type is that of the first call.
  void reserve(int64_t more, int64_t kv_heads, int64_t head_dim, at::ScalarType compute, at::Device device);
};

}  // namespace trl::model
