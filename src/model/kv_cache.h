// Keys and values of one sequence, layer by layer, in pages, so that nothing moves while the sequence
// grows.
#pragma once
#include <ATen/ATen.h>

#include <vector>

#include "kernels/kernels.h"

namespace trl::model {

class Adapter;

struct LayerCache {
  std::vector<kernels::KeyValues> pages;  // [rows, kv_heads, head_dim], in the type of the computation

  // keys, values: [tokens, kv_heads, head_dim] at position, position + 1, ...; they must fit.
  void write(int64_t position, const at::Tensor& keys, const at::Tensor& values);
};

struct KvCache {
  int64_t length = 0;      // positions held, the same in every layer
  int64_t capacity = 0;    // rows in all pages of a layer
  int64_t first_rows = 1;  // the minimum for the first page
  at::ScalarType type = at::kFloat;
  const Adapter* adapter = nullptr;  // that the keys and values are computed with; null: none
  std::vector<LayerCache> layers;
  std::vector<int32_t> ids;  // ids at the positions held

  // Makes room for `more` further positions, in a new page if needed; an Error leaves everything unchanged.
  // The first call sets the type.
  void reserve(int64_t more, int64_t kv_heads, int64_t head_dim, at::ScalarType compute, at::Device device);
};

}  // namespace trl::model
