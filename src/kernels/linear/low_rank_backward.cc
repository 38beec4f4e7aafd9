// The gradients of low-rank terms: of their factors and biases, and of x.
#include "kernels/gemm/gemm.h"
#include "kernels/linear/low_rank.h"
#include "kernels/weight/weight_product.h"

namespace trl::kernels {

void LowRankTerms::backward(tensor_list& d_outputs, at::ArrayRef<Projection> projections,
                            at::ArrayRef<at::Tensor> kept, at::Tensor x, at::Tensor& dx) {
  backward_of_magnitudes(d_outputs, kept);
  tensor_list dys;
  for (const at::Tensor& dy : d_outputs) dys.push_back(in_their_type(dy));
  x = in_their_type(x);
  const at::ArrayRef<at::Tensor> words = kept.slice(1, terms_.size());
  const at::Tensor d = d_reduced(dys, kept[0]);
  if (dx.defined()) {
    const TensorFactors own{d, false, stacked(d.scalar_type(), false), false};
    input_gradient(d_outputs, projections, drops() ? TensorFactors() : own, dx);
    if (drops()) add_dropped(d, words, dx);
  }
  if (needs_input()) add_gradients_of_a(d, words, x);
  for (Term& term : terms_) {
    if (const at::Tensor& dy = dys[term.output]; dy.defined()) {
      term.b.add(
          [&](at::Tensor& gradient) { gemm(dy, true, columns(kept[0], term), false, gradient, 1.0f); });
      term.bias.add([&](at::Tensor& gradient) {
        add_in_pieces(dy.size(0), gradient, [&](int64_t first, int64_t count, at::Tensor& sum) {
          at::Tensor sums = at::zeros({dy.size(1)}, at::kFloat);
          add_column_sums(dy.narrow(0, first, count), sums);
          add_in_place(sum, sums.mul_(term.factors().scale));
        });
      });
    }
    for (tensor::Use* use : {&term.a, &term.b, &term.bias, &term.magnitude}) use->end();
  }
}

// The columns of all scale_i dy_i b_i.
at::Tensor LowRankTerms::d_reduced(at::ArrayRef<at::Tensor> d_outputs, const at::Tensor& reduced) const {
  at::Tensor d = tensor::empty(reduced.sizes(), reduced.scalar_type(), MemoryKind::workspace);
  for (const Term& term : terms_) {
    at::Tensor part = columns(d, term);
    const at::Tensor& dy = d_outputs[term.output];
    if (dy.defined())
      gemm(dy, false, scaled(*term.factors().b, term.factors().scale, d.scalar_type()), false, part);
    else
      part.zero_();
  }
  return d;
}

void LowRankTerms::add_dropped(const at::Tensor& d_reduced, at::ArrayRef<at::Tensor> words,
                               at::Tensor& dx) const {
  at::Tensor part = tensor::empty(dx.sizes(), d_reduced.scalar_type(), MemoryKind::workspace);
  for (size_t i = 0; i < terms_.size(); ++i) {
    const LowRank& factors = terms_[i].factors();
    gemm(columns(d_reduced, terms_[i]), false, *read(*factors.a, part.scalar_type()), false, part);
    kernels::add_dropped(part, factors.dropout, words[i], dx);
  }
}

// Without dropout all of them read the same x: one product for each piece of the sum computes them.
void LowRankTerms::add_gradients_of_a(const at::Tensor& d_reduced, at::ArrayRef<at::Tensor> words,
                                      const at::Tensor& x) const {
  const auto each = [&](const auto& body) {
    for (size_t i = 0; i < terms_.size(); ++i)
      terms_[i].a.add([&](at::Tensor& gradient) { body(i, gradient); });
  };
  if (drops() || terms_.size() == 1) {
    return each([&](size_t i, at::Tensor& gradient) {
      const at::Tensor own = drops() ? dropped(x, terms_[i].factors().dropout, words[i]) : x;
      gemm(columns(d_reduced, terms_[i]), true, own, false, gradient, 1.0f);
    });
  }
  at::Tensor all = tensor::empty({width_, x.size(1)}, at::kFloat, MemoryKind::workspace);
  tensor_list sums(terms_.size());  // the gradients, or float32 sums for bfloat16 ones
  each([&](size_t i, at::Tensor& gradient) { sums[i] = wide_sum(gradient); });
  for (int64_t first = 0; first < x.size(0); first += kSumPiece) {
    const int64_t count = std::min(kSumPiece, x.size(0) - first);
    gemm(d_reduced.narrow(0, first, count), true, x.narrow(0, first, count), false, all);
    each([&](size_t i, at::Tensor&) {
      add_in_place(sums[i], all.narrow(0, terms_[i].first, terms_[i].factors().rank()));
    });
  }
  each([&](size_t i, at::Tensor& gradient) {
    if (!sums[i].is_same(gradient)) add_to(sums[i], gradient);
  });
}

}  // namespace trl::kernels
