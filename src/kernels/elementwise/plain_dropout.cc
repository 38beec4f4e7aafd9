// Dropout on any device: the host draws the factor of each element.
#include "base/arithmetic/counter_random.h"
#include "kernels/op.h"
#include "kernels/plain.h"

namespace trl::kernels::plain {

at::Tensor dropout_factors(const Dropout& dropout, Range rows, Range columns) {
  const Drop drop = drop_of(dropout);
  const int64_t width = columns.end - columns.begin;
  at::Tensor factors = at::empty({rows.end - rows.begin, width}, at::kFloat);
  tensor::parallel_for(factors.size(0), 16, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      float* const row = factors.data_ptr<float>() + r * width;
      const base::CounterKey key = base::counter_key({drop.key, static_cast<uint64_t>(rows.begin + r)});
      for (int64_t c = 0; c < width; ++c) {
        const uint32_t bits = base::counter_bits(key, static_cast<uint32_t>(columns.begin + c));
        row[c] = static_cast<int32_t>(bits >> 8) >= drop.below ? drop.scale : 0.0f;
      }
    }
  });
  return factors;
}

at::Tensor dropout(const at::Tensor& x, const Dropout& dropout) {
  const int64_t width = x.size(-1), rows = width > 0 ? x.numel() / width : 0;
  const at::Tensor factors =
      dropout_factors(dropout, {dropout.row, dropout.row + rows}, {0, width}).to(x.device());
  return (x.to(wide_type(x)) * factors.view(x.sizes())).to(x.scalar_type());
}

}  // namespace trl::kernels::plain
