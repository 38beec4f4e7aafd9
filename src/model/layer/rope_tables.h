// Rotary position embedding: cosines and sines of a batch's positions.
#pragma once
#include <ATen/ATen.h>
#include <cstdint>

#include "model/config/rope.h"

namespace trl::model {

struct RopeTables {
  at::Tensor cos, sin;  // float32 [tokens, frequencies]
};
// position_ids: int32 [tokens] on the host. reach: number of positions that their batch reaches; 0: their
// own.
RopeTables rope_tables(const RopeConfig& rope, int64_t head_dim, const at::Tensor& position_ids,
                       int64_t reach = 0);

}  // namespace trl::model
