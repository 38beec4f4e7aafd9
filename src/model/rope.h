// Rotary position embedding: frequencies of a head, and cosines and sines of a batch's positions.
#pragma once
#include <ATen/ATen.h>

#include <vector>

#include "model/rope_config.h"

namespace trl::model {

// One frequency for every pair of elements that is turned, in float32 as transformers computes them
// (modeling_rope_utils.py). length: number of positions that the batch reaches, on which "dynamic" and
// "longrope" depend.
std::vector<float> inverse_frequencies(const RopeConfig& rope, int64_t head_dim, int64_t length = 0);
// The factor of cosines and sines, which yarn and longrope have.
double rope_attention_factor(const RopeConfig& rope);

struct RopeTables {
  at::Tensor cos, sin;  // float32 [tokens, frequencies]
};
// position_ids: int32 [tokens] on the host. reach: number of positions that their batch reaches; 0: their
// own.
RopeTables rope_tables(const RopeConfig& rope, int64_t head_dim, const at::Tensor& position_ids,
                       int64_t reach = 0);

}  // namespace trl::model
