#include "kernels/weight/weight_product.h"

#include "kernels/gemm/gemm_int8.h"
#include "kernels/op.h"
#include "kernels/weight/encoded_weight.h"

namespace trl::kernels {

namespace {

// Initialises rows of y with the bias, so that product and bias are rounded together, once.
void fill_rows(at::Tensor& y, const at::Tensor& row) {
  const auto bytes = static_cast<size_t>(row.nbytes());
  tensor::parallel_for(y.size(0), 64, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) std::memcpy(at_byte(y, r * y.size(1)), row.data_ptr(), bytes);
  });
}

Matrix matrix_of(const at::Tensor& x) {
  return {x.data_ptr(), x.scalar_type(), x.size(0), x.size(1), x.stride(0), false};
}

// A dense matrix [out, in] that is not trained. Its rows are read in place, parts of its columns are copied.
Panels dense_panels(const at::Tensor& w, bool transposed) {
  const int64_t rows = w.size(0), width = w.size(1);
  const auto size = static_cast<int64_t>(w.element_size());
  const char* const data = static_cast<const char*>(w.data_ptr());
  if (transposed) {
    return {width, rows, w.scalar_type(),
            true,  1,    [=](int64_t first, int64_t, void*) { return data + first * width * size; }};
  }
  return {rows, width, w.scalar_type(), false, 1, [=](int64_t first, int64_t count, void* room) {
            char* const to = static_cast<char*>(room);
            for (int64_t r = 0; r < rows; ++r)
              std::memcpy(to + r * count * size, data + (r * width + first) * size,
                          static_cast<size_t>(count * size));
            return static_cast<const void*>(room);
          }};
}

// Whether a weight is multiplied in panels: larger ones that are not trained are, however they are stored.
// Products with an encoded weight have the bits of those with its numbers, and in backward it is faster.
bool in_panels(const Parameter& w, at::ScalarType compute) {
  return !w.has_gradient() && w.count() * static_cast<int64_t>(c10::elementSize(compute)) > kDecodedBytes;
}

// c = a w^T (transposed) or a w, + beta c, + the added product.
void multiply_panels(const at::Tensor& a, Parameter& w, bool transposed, const TensorFactors& added,
                     at::Tensor& c, float beta) {
  const at::ScalarType compute = a.scalar_type();
  at::Tensor numbers;
  if (w.encoded() == nullptr) numbers = *read(w, compute);
  const Panels b =
      numbers.defined() ? dense_panels(numbers, transposed) : panels(*w.encoded(), compute, transposed);
  PanelMultiplication m{matrix_of(a), b, c.data_ptr(), c.scalar_type(), c.stride(0), beta};
  if (added.a.defined()) m.more.push_back(matrices(added));
  gemm(m);
}

bool in_int8(const Projection& p, at::ScalarType compute) {
  return p.int8 != nullptr && compute == at::kBFloat16 && p.int8->are_of(p);
}

// narrow: gets the products that are left to be done in int8.
at::Tensor project(const at::Tensor& x, const Projection& p, const TensorFactors& added,
                   std::vector<Int8Multiplication>& narrow) {
  const at::ScalarType compute = x.scalar_type();
  at::Tensor y = tensor::empty({x.size(0), p.out()}, compute, MemoryKind::activations);
  const float beta = p.bias != nullptr ? 1.0f : 0.0f;
  if (p.bias != nullptr) fill_rows(y, *read(*p.bias, compute));
  if (in_int8(p, compute)) {
    narrow.push_back(p.int8->forward(y, added, beta));
    return y;
  }
  if (!p.transposed && in_panels(*p.weight, compute)) {
    multiply_panels(x, *p.weight, true, added, y, beta);
    return y;
  }
  const TensorFactors sum[] = {{x, false, *read(*p.weight, compute), !p.transposed}, added};
  gemm(at::ArrayRef<TensorFactors>(sum, added.a.defined() ? 2 : 1), y, beta);
  return y;
}

}  // namespace

Panels panels(const tensor::Encoded& w, at::ScalarType type, bool transposed, int64_t matrix) {
  const int64_t rows = w.shape()[w.shape().size() - 2], width = w.width(), start = matrix * rows;
  if (transposed) {
    return {width, rows, type, true, 1, [&w, type, width, start](int64_t first, int64_t count, void* room) {
              w.decode({start + first, count, 0, width}, type, room, width);
              return static_cast<const void*>(room);
            }};
  }
  return {
      rows, width, type, false, w.unit(), [&w, type, rows, start](int64_t first, int64_t count, void* room) {
        w.decode({start, rows, first, count}, type, room, count);
        return static_cast<const void*>(room);
      }};
}

std::vector<at::Tensor> project(const at::Tensor& x, at::ArrayRef<Projection> projections,
                                at::ArrayRef<TensorFactors> added) {
  const at::ScalarType compute = x.scalar_type();
  std::vector<at::Tensor> outputs;
  const bool skinny = x.size(0) <= kSkinnyRows && std::ranges::all_of(projections, [&](const Projection& p) {
                        return !p.transposed && !in_int8(p, compute) &&
                               (p.weight->encoded() != nullptr || p.weight->dtype() == compute);
                      });
  if (!skinny) {
    std::vector<Int8Multiplication> narrow;
    for (size_t i = 0; i < projections.size(); ++i)
      outputs.push_back(project(x, projections[i], added.empty() ? TensorFactors() : added[i], narrow));
    if (!narrow.empty()) gemm_int8(x, nullptr, narrow);
    return outputs;
  }
  std::vector<SkinnyProduct> products;
  std::vector<tensor::Reading> readings;
  const auto values = [&](Parameter& w) { return *readings.emplace_back(w.read()); };
  for (const Projection& p : projections) {
    outputs.push_back(tensor::empty({x.size(0), p.out()}, compute, MemoryKind::activations));
    const tensor::Encoded* const encoded = p.weight->encoded();
    products.push_back({encoded == nullptr ? values(*p.weight) : at::Tensor(),
                        p.bias != nullptr ? values(*p.bias) : at::Tensor(), outputs.back(), encoded});
  }
  skinny_products(x, products);
  for (size_t i = 0; i < added.size(); ++i)
    if (added[i].a.defined()) gemm(added[i], outputs[i], 1.0f);
  return outputs;
}

// The added product is part of the last of them.
void input_gradient(at::ArrayRef<at::Tensor> dys, at::ArrayRef<Projection> projections,
                    const TensorFactors& added, at::Tensor& dx) {
  std::vector<TensorFactors> sum;
  std::vector<size_t> narrow, in_panels_too;
  for (size_t i = 0; i < projections.size(); ++i) {
    const Projection& p = projections[i];
    if (!dys[i].defined()) continue;
    const at::ScalarType compute = dys[i].scalar_type();
    if (in_int8(p, compute))
      narrow.push_back(i);
    else if (!p.transposed && in_panels(*p.weight, compute))
      in_panels_too.push_back(i);
    else
      sum.push_back({dys[i], false, *read(*p.weight, compute), p.transposed});
  }
  size_t left = narrow.size() + in_panels_too.size() + (sum.empty() ? 0 : 1);
  const auto with_it = [&] { return --left == 0 ? added : TensorFactors(); };
  float beta = 0;
  for (const size_t i : narrow)
    projections[i].int8->input_gradient(dys[i], with_it(), dx, std::exchange(beta, 1.0f));
  for (const size_t i : in_panels_too)
    multiply_panels(dys[i], *projections[i].weight, false, with_it(), dx, std::exchange(beta, 1.0f));
  const bool alone = narrow.empty() && in_panels_too.empty();
  if ((alone || !sum.empty()) && added.a.defined()) sum.push_back(added);
  if (!sum.empty()) gemm(sum, dx, beta);
}

namespace {

constexpr int64_t kDecodedRows = 4;  // rows of a weight decoded at a time: they stay in the first-level cache

// The product's outputs from `begin` on, whose weights are in `rows`.
Skinny part_of(const Skinny& whole, int64_t begin, const void* rows) {
  const auto moved = [&](const void* at, Type type) {
    return static_cast<const char*>(at) + begin * (type == Type::f32 ? 4 : 2);
  };
  Skinny part = whole;
  part.w = rows;
  part.near = true;
  part.y = const_cast<char*>(moved(whole.y, whole.y_type));
  if (whole.bias != nullptr) part.bias = moved(whole.bias, whole.bias_type);
  return part;
}

// Computes outputs [begin, end) of a product with an encoded weight.
void skinny_decoded(const Skinny& whole, const SkinnyProduct& p, int64_t begin, int64_t end, void* rows) {
  const auto codes = four_bit_rows(*p.encoded, {p.first_row + begin, end - begin, 0, whole.k});
  if (codes && cpu().skinny_four_bit(part_of(whole, begin, nullptr), *codes)) return;
  for (int64_t out = begin; out < end; out += kDecodedRows) {
    const int64_t count = std::min(kDecodedRows, end - out);
    p.encoded->decode({p.first_row + out, count, 0, whole.k}, scalar_type(whole.w_type), rows, whole.k);
    cpu().skinny(part_of(whole, out, rows), 0, count);
  }
}

}  // namespace

// Each thread takes the next outputs when it is done, since other programs may slow any thread down at any
// time.
void skinny_products(const at::Tensor& x, at::ArrayRef<SkinnyProduct> products) {
  const tensor::Timed timed(tensor::Part::gemm);
  constexpr int64_t kUnit = 16;  // outputs
  std::vector<Skinny> all;
  std::vector<int64_t> starts = {0};  // each product's first among the units of all
  for (const SkinnyProduct& p : products) {
    const bool biased = p.bias.defined();
    all.push_back({x.data_ptr(), p.encoded == nullptr ? p.w.data_ptr() : nullptr,
                   biased ? p.bias.data_ptr() : nullptr, p.y.data_ptr(), x.size(0), x.size(1), x.size(1),
                   p.y.size(1), type_of(x), p.encoded == nullptr ? type_of(p.w) : type_of(x),
                   biased ? type_of(p.bias) : Type::f32, type_of(p.y)});
    starts.push_back(starts.back() + (p.y.size(1) + kUnit - 1) / kUnit);
  }
  const int64_t count = starts.back(), width = std::min<int64_t>(tensor::threads(), (count + 3) / 4);
  const int64_t piece = std::clamp<int64_t>(count / std::max<int64_t>(1, 4 * width), 1, 64);
  std::atomic<int64_t> next{0}, place{0};
  const bool decodes =
      std::ranges::any_of(products, [](const SkinnyProduct& p) { return p.encoded != nullptr; });
  const int64_t bytes =
      decodes ? round_up(kDecodedRows * x.size(1) * static_cast<int64_t>(x.element_size()), 64) : 0;
  const at::Tensor work = tensor::empty({width * bytes}, at::kByte, MemoryKind::workspace);
  tensor::parallel_for(width, 1, [&](int64_t, int64_t) {
    uint8_t* const mine = work.data_ptr<uint8_t>() + place.fetch_add(1) * bytes;
    for (int64_t begin = next.fetch_add(piece); begin < count; begin = next.fetch_add(piece)) {
      for (size_t i = 0; i < all.size(); ++i) {
        const int64_t from = std::max(begin, starts[i]) - starts[i];
        const int64_t to = std::min(begin + piece, starts[i + 1]) - starts[i];
        if (from >= to) continue;
        const int64_t last = std::min(to * kUnit, all[i].y_stride);
        if (products[i].encoded == nullptr)
          cpu().skinny(all[i], from * kUnit, last);
        else
          skinny_decoded(all[i], products[i], from * kUnit, last, mine);
      }
    }
  });
}

}  // namespace trl::kernels
