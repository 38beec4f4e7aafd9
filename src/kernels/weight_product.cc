#include "kernels/weight_product.h"

#include "kernels/gemm.h"
#include "kernels/op.h"

namespace trl::kernels {

namespace {

// Rows of y start as the bias, so that product and bias are rounded together, once.
void fill_rows(at::Tensor& y, const at::Tensor& row) {
  const auto bytes = static_cast<size_t>(row.nbytes());
  tensor::parallel_for(y.size(0), 64, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) std::memcpy(at_byte(y, r * y.size(1)), row.data_ptr(), bytes);
  });
}

at::Tensor project(const at::Tensor& x, const Projection& p) {
  const at::ScalarType compute = x.scalar_type();
  at::Tensor y = tensor::empty({x.size(0), p.out()}, compute, MemoryKind::activations);
  if (p.bias != nullptr) fill_rows(y, *read(*p.bias, compute));
  gemm(x, false, *read(*p.weight, compute), !p.transposed, y, p.bias != nullptr ? 1.0f : 0.0f);
  return y;
}

}  // namespace

std::vector<at::Tensor> project(const at::Tensor& x, at::ArrayRef<Projection> projections) {
  const at::ScalarType compute = x.scalar_type();
  std::vector<at::Tensor> outputs;
  const bool skinny = x.size(0) <= kSkinnyRows &&
                      std::all_of(projections.begin(), projections.end(), [&](const Projection& p) {
                        return p.weight->dtype() == compute && !p.transposed;
                      });
  if (!skinny) {
    for (const Projection& p : projections) outputs.push_back(project(x, p));
    return outputs;
  }
  std::vector<SkinnyProduct> products;
  std::vector<tensor::Reading> readings;
  const auto values = [&](Parameter& w) { return *readings.emplace_back(w.read()); };
  for (const Projection& p : projections) {
    outputs.push_back(tensor::empty({x.size(0), p.out()}, compute, MemoryKind::activations));
    products.push_back(
        {values(*p.weight), p.bias != nullptr ? values(*p.bias) : at::Tensor(), outputs.back()});
  }
  skinny_products(x, products);
  return outputs;
}

void input_gradient(const at::Tensor& dy, const Projection& p, at::Tensor& dx, float beta) {
  gemm(dy, false, *read(*p.weight, dy.scalar_type()), p.transposed, dx, beta);
}

// A thread takes the next outputs when it is done, since other programs may slow any thread down at any time.
void skinny_products(const at::Tensor& x, at::ArrayRef<SkinnyProduct> products) {
  const tensor::Timed timed(tensor::Part::gemm);
  constexpr int64_t kUnit = 16;  // outputs
  std::vector<Skinny> all;
  std::vector<int64_t> starts = {0};  // of each product among the units of all
  for (const SkinnyProduct& p : products) {
    const bool biased = p.bias.defined();
    all.push_back({x.data_ptr(), p.w.data_ptr(), biased ? p.bias.data_ptr() : nullptr, p.y.data_ptr(),
                   x.size(0), x.size(1), x.size(1), p.y.size(1), type_of(x), type_of(p.w),
                   biased ? type_of(p.bias) : Type::f32, type_of(p.y)});
    starts.push_back(starts.back() + (p.w.size(0) + kUnit - 1) / kUnit);
  }
  const int64_t count = starts.back(), width = std::min<int64_t>(tensor::threads(), (count + 3) / 4);
  const int64_t piece = std::clamp<int64_t>(count / std::max<int64_t>(1, 4 * width), 1, 64);
  std::atomic<int64_t> next{0};
  tensor::parallel_for(width, 1, [&](int64_t, int64_t) {
    for (int64_t begin = next.fetch_add(piece); begin < count; begin = next.fetch_add(piece)) {
      for (size_t i = 0; i < all.size(); ++i) {
        const int64_t from = std::max(begin, starts[i]) - starts[i];
        const int64_t to = std::min(begin + piece, starts[i + 1]) - starts[i];
        if (from < to) cpu().skinny(all[i], from * kUnit, std::min(to * kUnit, all[i].y_stride));
      }
    }
  });
}

}  // namespace trl::kernels
