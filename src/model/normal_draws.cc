#include "model/normal_draws.h"

namespace trl::model {

namespace {
constexpr int64_t kDraws = 16;  // numbers that torch draws together
}

// If the count is not a multiple of 16, the last 16 are drawn again. Before that, float32 has drawn for all
// elements, and bfloat16 only for the whole groups of 16.
void draw_normal(const at::Tensor& values, at::ScalarType type, double deviation, at::Generator generator) {
  at::Tensor flat = values.view({-1});
  const int64_t count = flat.numel(), whole = count - count % kDraws;
  if (type == at::kFloat || count < kDraws || count == whole) {
    flat.normal_(0, deviation, generator);
    return;
  }
  flat.narrow(0, 0, whole).normal_(0, deviation, generator);
  flat.narrow(0, count - kDraws, kDraws).normal_(0, deviation, generator);
}

}  // namespace trl::model
