// What the layers of one pass share.
#pragma once
#include <ATen/ATen.h>

#include <vector>

#include "kernels/kernels.h"
#include "model/kv_cache.h"
#include "model/rope.h"

namespace trl::model {

struct LayerContext {
  at::ScalarType compute = at::kFloat;
  kernels::SegmentsPtr segments;
  std::vector<RopeTables> ropes;                    // one for each kind of layers
  kernels::AttentionPluginPtr attention = nullptr;  // the built-in one
  LayerCache* cache = nullptr;  // decoding: keys and values are kept in rows past, past + 1, ...
  int64_t past = 0;             // positions in the cache before this call
};

}  // namespace trl::model
