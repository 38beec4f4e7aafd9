// The scale goes into copies of the small factors: forward reads scale a and b, backward a and scale b. So
// nothing that has a row for each token is scaled.
#include "kernels/low_rank.h"

#include "kernels/gemm.h"

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

at::Tensor scaled(Parameter& w, double scale, at::ScalarType type) {
  if (scale == 1) return *read(w, type);
  at::Tensor copy = tensor::empty(w.shape(), type, MemoryKind::workspace);
  write_scaled(w, scale, copy);
  return copy;
}

}  // namespace

LowRankTerms::LowRankTerms(at::ArrayRef<Projection> projections) {
  for (size_t i = 0; i < projections.size(); ++i) {
    const LowRank& factors = projections[i].low_rank;
    if (factors.a == nullptr) continue;
    terms_.push_back({i, factors, width_, tensor::Use(*factors.a), tensor::Use(*factors.b)});
    width_ += factors.rank();
  }
}

bool LowRankTerms::needs_input() const {
  return std::any_of(terms_.begin(), terms_.end(),
                     [](const Term& term) { return static_cast<bool>(term.a); });
}

// The a's, one below the other: [sum of the ranks, in]
at::Tensor LowRankTerms::stacked(at::ScalarType type, bool with_scale) const {
  const auto scale = [&](const Term& term) { return with_scale ? term.factors.scale : 1.0; };
  if (terms_.size() == 1) return scaled(*terms_[0].factors.a, scale(terms_[0]), type);
  at::Tensor all = tensor::empty({width_, terms_[0].factors.a->size(1)}, type, MemoryKind::workspace);
  for (const Term& term : terms_)
    write_scaled(*term.factors.a, scale(term), all.narrow(0, term.first, term.factors.rank()));
  return all;
}

at::Tensor LowRankTerms::reduced(const at::Tensor& x) const {
  at::Tensor y = tensor::empty({x.size(0), width_}, x.scalar_type(), MemoryKind::activations);
  gemm(x, false, stacked(x.scalar_type(), true), true, y);
  return y;
}

void LowRankTerms::add_to(std::vector<at::Tensor>& outputs, const at::Tensor& reduced) const {
  for (const Term& term : terms_)
    gemm(columns(reduced, term), false, *read(*term.factors.b, reduced.scalar_type()), true,
         outputs[term.output], 1.0f);
}

void LowRankTerms::backward(at::ArrayRef<at::Tensor> d_outputs, const at::Tensor& reduced,
                            const at::Tensor& x, at::Tensor& dx) {
  const at::Tensor d = d_reduced(d_outputs, reduced);
  if (dx.defined()) gemm(d, false, stacked(d.scalar_type(), false), false, dx, 1.0f);
  if (needs_input()) add_gradients(d, x);
  for (Term& term : terms_) {
    const at::Tensor& dy = d_outputs[term.output];
    if (dy.defined()) {
      term.b.add(
          [&](at::Tensor& gradient) { gemm(dy, true, columns(reduced, term), false, gradient, 1.0f); });
    }
    term.a.end();
    term.b.end();
  }
}

// scale_i dy_i b_i, side by side.
at::Tensor LowRankTerms::d_reduced(at::ArrayRef<at::Tensor> d_outputs, const at::Tensor& reduced) const {
  at::Tensor d = tensor::empty(reduced.sizes(), reduced.scalar_type(), MemoryKind::workspace);
  for (const Term& term : terms_) {
    at::Tensor part = columns(d, term);
    const at::Tensor& dy = d_outputs[term.output];
    if (dy.defined()) {
      gemm(dy, false, scaled(*term.factors.b, term.factors.scale, d.scalar_type()), false, part);
    } else {
      part.zero_();
    }
  }
  return d;
}

void LowRankTerms::add_gradients(const at::Tensor& d_reduced, const at::Tensor& x) const {
  for (const Term& term : terms_)
    term.a.add([&](at::Tensor& gradient) { gemm(columns(d_reduced, term), true, x, false, gradient, 1.0f); });
}

}  // namespace trl::kernels
