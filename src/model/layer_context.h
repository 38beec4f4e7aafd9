// What the layers of one pass share.
#pragma once
#include <ATen/ATen.h>

#include <optional>
#include <vector>

#include "base/counter.h"
#include "kernels/kernels.h"
#include "model/kv_cache.h"
#include "model/rope.h"

namespace trl::model {

// Where a layer leaves out elements in training. What is dropped anywhere else in it is numbered from
// `others` on.
enum class DropPlace : uint64_t { attention_weights, attention_out, mlp_out, others };

// The key that dropout in this layer draws from; one past the last layer stands for the embedding.
inline uint64_t part_of(uint64_t random, size_t layer) { return base::counter_seed({random, layer}); }

struct LayerContext {
  at::ScalarType compute = at::kFloat;
  kernels::SegmentsPtr segments;
  std::vector<RopeTables> ropes;                    // one for each kind of layers
  kernels::AttentionPluginPtr attention = nullptr;  // the built-in one
  LayerCache* cache = nullptr;  // decoding: keys and values are kept in rows past, past + 1, ...
  int64_t past = 0;             // positions in the cache before this call
  // Training: what the dropout of this layer is drawn from; otherwise there is none.
  std::optional<uint64_t> random = {};

  kernels::Dropout dropout(double rate, DropPlace place) const {
    if (!random || rate == 0) return {};
    return {rate, base::counter_seed({*random, static_cast<uint64_t>(place)})};
  }
};

}  // namespace trl::model
