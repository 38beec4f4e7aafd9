// Rotary position embedding: frequencies of a head, and cosines and sines of a batch's positions.
#pragma once
#include <ATen/ATen.h>

#include <vector>

#include "model/config.h"

namespace trl::model {

// [head_dim / 2], in float32 as transformers computes them (modeling_rope_utils.py).
std::vector<float> inverse_frequencies(const RopeConfig& rope, int64_t head_dim);

struct RopeTables {
  at::Tensor cos, sin;  // float32 [tokens, head_dim / 2]
};
RopeTables rope_tables(const std::vector<float>& inverse_frequencies, const at::Tensor& position_ids);

}  // namespace trl::model
