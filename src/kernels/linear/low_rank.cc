// The scale is applied to copies of the small factors: forward reads scale a and b, backward a and scale b.
// So no tensor with a row for each token is scaled. Dropout leaves out different elements of x for each
// module, so with it each module reads its own x.
#include "kernels/linear/low_rank.h"

#include "kernels/gemm/gemm.h"
#include "kernels/weight/weight_product.h"

namespace trl::kernels {

namespace {

// to = scale * the values of w, in to's type.
void write_scaled(Parameter& w, double scale, const at::Tensor& to) {
  const tensor::Reading values = w.read();
  parallel_elements(to.numel(), [&](int64_t begin, int64_t end) {
    cpu().scale(at_byte(*values, begin), type_of(*values), static_cast<float>(scale), at_byte(to, begin),
                type_of(to), end - begin);
  });
}

// Outputs for the case that they are not read.
tensor_list zeros(const at::Tensor& x, at::ArrayRef<Projection> projections) {
  tensor_list all;
  for (const Projection& p : projections)
    all.push_back(tensor::zeros({x.size(0), p.out()}, x.scalar_type(), MemoryKind::activations));
  return all;
}

}  // namespace

void add_in_place(const at::Tensor& x, const at::Tensor& y) {
  const int64_t count = y.numel();
  tensor::parallel_for(x.numel() / count, std::max<int64_t>(1, 8192 / count),
                       [&](int64_t begin, int64_t end) {
                         for (int64_t r = begin; r < end; ++r)
                           cpu().add(at_byte(x, r * count), type_of(x), y.data_ptr(), type_of(y), 1,
                                     at_byte(x, r * count), count);
                       });
}

at::Tensor scaled(Parameter& w, double scale, at::ScalarType type) {
  if (scale == 1) return *read(w, type);
  at::Tensor copy = tensor::empty(w.shape(), type, MemoryKind::workspace);
  write_scaled(w, scale, copy);
  return copy;
}

LowRankTerms::LowRankTerms(at::ArrayRef<Projection> projections) {
  for (size_t i = 0; i < projections.size(); ++i) {
    const LowRank& factors = projections[i].low_rank;
    if (factors.a == nullptr) continue;
    terms_.push_back({i, projections[i], width_, use_of(factors.a), use_of(factors.b), use_of(factors.bias),
                      use_of(factors.magnitude)});
    width_ += factors.rank();
  }
}

bool LowRankTerms::needs_input() const {
  return std::ranges::any_of(terms_, [](const Term& term) { return static_cast<bool>(term.a); });
}

bool LowRankTerms::has_magnitudes() const {
  return std::ranges::any_of(terms_, [](const Term& term) { return term.factors().magnitude != nullptr; });
}

bool LowRankTerms::drops() const {
  return std::ranges::any_of(terms_, [](const Term& term) { return term.factors().dropout.rate > 0; });
}

// The a's, stacked by rows: [sum of the ranks, in]
at::Tensor LowRankTerms::stacked(at::ScalarType type, bool with_scale) const {
  const auto scale = [&](const Term& term) { return with_scale ? term.factors().scale : 1.0; };
  if (terms_.size() == 1) return scaled(*terms_[0].factors().a, scale(terms_[0]), type);
  at::Tensor all = tensor::empty({width_, terms_[0].projection.in()}, type, MemoryKind::workspace);
  for (const Term& term : terms_)
    write_scaled(*term.factors().a, scale(term), all.narrow(0, term.first, term.factors().rank()));
  return all;
}

// For independent rows the few sums are scaled instead of the factors, which are read where they are.
struct LowRankTerms::RowSums {
  at::Tensor sums;  // of all a_i x: float32 [tokens, sum of the ranks]
  std::vector<tensor::Reading> factors;
  std::vector<SkinnyProduct> products;
};

LowRankTerms::RowSums LowRankTerms::row_sums(const at::Tensor& x) const {
  RowSums all{tensor::empty({x.size(0), width_}, at::kFloat, MemoryKind::workspace), {}, {}};
  for (const Term& term : terms_) {
    all.factors.push_back(read(*term.factors().a, x.scalar_type()));
    all.products.push_back({*all.factors.back(), {}, columns(all.sums, term)});
  }
  return all;
}

at::Tensor LowRankTerms::scaled_sums(const RowSums& sums, at::ScalarType type) const {
  at::Tensor y = tensor::empty(sums.sums.sizes(), type, MemoryKind::activations);
  tensor::parallel_for(y.size(0), 64, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      for (const Term& term : terms_)
        cpu().scale(at_byte(sums.sums, r * width_ + term.first), Type::f32,
                    static_cast<float>(term.factors().scale), at_byte(y, r * width_ + term.first), type_of(y),
                    term.factors().rank());
  });
  return y;
}

// The columns of all scale_i a_i x: [tokens, sum of the ranks]
at::Tensor LowRankTerms::reduced(const at::Tensor& x, tensor_list* kept) const {
  if (!drops() && IndependentRows::active()) {
    const RowSums sums = row_sums(x);
    skinny_products(x, sums.products);
    return scaled_sums(sums, x.scalar_type());
  }
  at::Tensor y = tensor::empty({x.size(0), width_}, x.scalar_type(), MemoryKind::activations);
  if (!drops()) {
    gemm(x, false, stacked(x.scalar_type(), true), true, y);
    return y;
  }
  for (size_t i = 0; i < terms_.size(); ++i) {
    const LowRank& factors = terms_[i].factors();
    at::Tensor part = columns(y, terms_[i]);
    at::Tensor* const words = kept != nullptr ? &(*kept)[1 + i] : nullptr;
    gemm(dropped(x, factors.dropout, words), false, scaled(*factors.a, factors.scale, x.scalar_type()), true,
         part);
  }
  return y;
}

at::Tensor LowRankTerms::in_their_type(const at::Tensor& x) const {
  const bool narrow = terms_[0].factors().a->dtype() == at::kBFloat16;
  return x.defined() && narrow ? converted(x, at::kBFloat16, MemoryKind::workspace) : x;
}

// Returns the products that the terms add to each of the outputs.
std::vector<TensorFactors> LowRankTerms::products_of(const at::Tensor& reduced, size_t outputs) const {
  std::vector<TensorFactors> all(outputs);
  for (const Term& term : terms_) {
    const at::Tensor b = *read(*term.factors().b, reduced.scalar_type());
    all[term.output] = {columns(reduced, term), false, b, true};
  }
  return all;
}

// Keeps the products of all terms with x, their dropout's words, and the factors of the magnitudes.
tensor_list LowRankTerms::project(const at::Tensor& x, at::ArrayRef<Projection> projections,
                                  tensor_list* kept, Wanted wanted) {
  const bool values = wanted != Wanted::graph || has_magnitudes();
  if (empty()) return values ? kernels::project(x, projections) : zeros(x, projections);
  if (kept != nullptr) kept->resize(1 + terms_.size());
  const at::Tensor operand = in_their_type(x);
  tensor_list outputs;
  at::Tensor r;
  if (values && !drops() && IndependentRows::active() && operand.is_same(x)) {
    const RowSums sums = row_sums(x);  // one parallel region computes them beside the projections
    outputs = kernels::project(x, projections, {}, sums.products);
    r = scaled_sums(sums, x.scalar_type());
    add_products(products_of(r, projections.size()), outputs);
  } else {
    r = reduced(operand, kept);
    outputs =
        values ? kernels::project(x, projections, products_of(r, projections.size())) : zeros(x, projections);
  }
  if (kept != nullptr) (*kept)[0] = r;
  if (values) add_biases_and_magnitudes(outputs, kept);
  return outputs;
}

void LowRankTerms::add_terms(const at::Tensor& x, tensor_list& outputs) {
  if (empty()) return;
  add_products(products_of(reduced(in_their_type(x), nullptr), outputs.size()), outputs);
  add_biases_and_magnitudes(outputs, nullptr);
}

}  // namespace trl::kernels
