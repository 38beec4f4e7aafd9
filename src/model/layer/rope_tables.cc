#include "model/layer/rope_tables.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "tensor/memory/counted.h"
#include "tensor/threads/parallel.h"

namespace trl::model {

RopeTables rope_tables(const RopeConfig& rope, int64_t head_dim, const at::Tensor& position_ids,
                       int64_t reach) {
  const int64_t tokens = position_ids.numel();
  const int32_t* positions = position_ids.data_ptr<int32_t>();
  if (reach == 0 && tokens > 0) reach = int64_t{*std::max_element(positions, positions + tokens)} + 1;
  const std::vector<float> inverse = inverse_frequencies(rope, head_dim, reach);
  const auto factor = static_cast<float>(rope_attention_factor(rope));
  const auto width = static_cast<int64_t>(inverse.size());
  RopeTables tables{tensor::empty({tokens, width}, at::kFloat, tensor::MemoryKind::activations),
                    tensor::empty({tokens, width}, at::kFloat, tensor::MemoryKind::activations)};
  float* cos = tables.cos.data_ptr<float>();
  float* sin = tables.sin.data_ptr<float>();
  const float* frequencies = inverse.data();
  tensor::parallel_for(tokens, 64, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      for (int64_t i = 0; i < width; ++i) {
        const float angle = static_cast<float>(positions[t]) * frequencies[i];
        cos[t * width + i] = std::cos(angle) * factor;
        sin[t * width + i] = std::sin(angle) * factor;
      }
    }
  });
  return tables;
}

}  // namespace trl::model
