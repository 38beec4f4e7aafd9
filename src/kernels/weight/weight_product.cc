#include "kernels/weight/weight_product.h"

#include "kernels/gemm/gemm_int8.h"
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
  if (!p.transposed && in_panels(*p.weight, compute) && !IndependentRows::active()) {
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
                                at::ArrayRef<TensorFactors> added, at::ArrayRef<SkinnyProduct> beside) {
  const at::ScalarType compute = x.scalar_type();
  std::vector<at::Tensor> outputs;
  const bool few = x.size(0) <= kSkinnyRows || IndependentRows::active();
  const bool skinny = std::ranges::all_of(projections, [&](const Projection& p) {
    if (p.narrow != nullptr) return true;
    return few && !p.transposed && !in_int8(p, compute) &&
           (p.weight->encoded() != nullptr || p.weight->dtype() == compute);
  });
  if (!skinny) {
    std::vector<Int8Multiplication> narrow;
    const bool apart = added.empty() || IndependentRows::active();
    for (size_t i = 0; i < projections.size(); ++i) {
      const TensorFactors own = apart ? TensorFactors() : added[i];
      const Projection& p = projections[i];
      outputs.push_back(p.narrow != nullptr ? project(x, p, own)[0] : project(x, p, own, narrow));
    }
    if (!narrow.empty()) gemm_int8(x, nullptr, narrow);
    if (!beside.empty()) skinny_products(x, beside);
    if (apart) add_products(added, outputs);
    return outputs;
  }
  std::vector<SkinnyProduct> products;
  std::vector<tensor::Reading> readings;
  const auto values = [&](Parameter& w) { return *readings.emplace_back(w.read()); };
  for (const Projection& p : projections) {
    outputs.push_back(tensor::empty({x.size(0), p.out()}, compute, MemoryKind::activations));
    const at::Tensor bias = p.bias != nullptr ? values(*p.bias) : at::Tensor();
    if (p.narrow != nullptr) {
      products.push_back({{}, bias, outputs.back(), nullptr, 0, p.narrow});
      continue;
    }
    const tensor::Encoded* const encoded = p.weight->encoded();
    products.push_back(
        {encoded == nullptr ? values(*p.weight) : at::Tensor(), bias, outputs.back(), encoded});
  }
  products.insert(products.end(), beside.begin(), beside.end());
  skinny_products(x, products);
  add_products(added, outputs);
  return outputs;
}

void add_products(at::ArrayRef<TensorFactors> products, std::vector<at::Tensor>& to) {
  std::vector<Multiplication> all;
  for (size_t i = 0; i < products.size(); ++i) {
    if (!products[i].a.defined()) continue;
    if (!IndependentRows::active()) {
      gemm(products[i], to[i], 1.0f);
      continue;
    }
    const Factors factors = matrices(products[i]);
    all.push_back({factors.a, factors.b, to[i].data_ptr(), to[i].scalar_type(), to[i].stride(0), 1.0f});
  }
  if (!all.empty()) gemm(all);
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

}  // namespace trl::kernels
