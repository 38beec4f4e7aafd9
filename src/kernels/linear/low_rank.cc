// The scale is applied to copies of the small factors: forward reads scale a and b, backward a and scale b.
// So no tensor with a row for each token is scaled. Dropout leaves out different elements of x for each
// module, so with it each module reads its own x.
#include "kernels/linear/low_rank.h"

#include "kernels/gemm/gemm.h"
#include "kernels/linear/magnitude.h"
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

// Adds y to x in place; y may have rows that repeat.
void add_in_place(const at::Tensor& x, const at::Tensor& y) {
  const int64_t count = y.numel();
  tensor::parallel_for(x.numel() / count, std::max<int64_t>(1, 8192 / count),
                       [&](int64_t begin, int64_t end) {
                         for (int64_t r = begin; r < end; ++r)
                           cpu().add(at_byte(x, r * count), type_of(x), y.data_ptr(), type_of(y), 1,
                                     at_byte(x, r * count), count);
                       });
}

at::Tensor bias_of(const Projection& p) {
  return p.bias != nullptr ? at::Tensor(*p.bias->read()) : at::Tensor();
}

// Outputs for the case that they are not read.
tensor_list zeros(const at::Tensor& x, at::ArrayRef<Projection> projections) {
  tensor_list all;
  for (const Projection& p : projections)
    all.push_back(tensor::zeros({x.size(0), p.out()}, x.scalar_type(), MemoryKind::activations));
  return all;
}

}  // namespace

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
  return std::any_of(terms_.begin(), terms_.end(),
                     [](const Term& term) { return static_cast<bool>(term.a); });
}

bool LowRankTerms::has_magnitudes() const {
  return std::any_of(terms_.begin(), terms_.end(),
                     [](const Term& term) { return term.factors().magnitude != nullptr; });
}

bool LowRankTerms::drops() const {
  return std::any_of(terms_.begin(), terms_.end(),
                     [](const Term& term) { return term.factors().dropout.rate > 0; });
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

// The columns of all scale_i a_i x: [tokens, sum of the ranks]
at::Tensor LowRankTerms::reduced(const at::Tensor& x, tensor_list* kept) const {
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

// Keeps the products of all terms with x, their dropout's words, and the factors of the magnitudes.
tensor_list LowRankTerms::project(const at::Tensor& x, at::ArrayRef<Projection> projections,
                                  tensor_list* kept, Wanted wanted) {
  const bool values = wanted != Wanted::graph || has_magnitudes();
  if (empty()) return values ? kernels::project(x, projections) : zeros(x, projections);
  if (kept != nullptr) kept->resize(1 + terms_.size());
  const at::Tensor r = reduced(in_their_type(x), kept);
  if (kept != nullptr) (*kept)[0] = r;
  if (!values) return zeros(x, projections);
  std::vector<TensorFactors> added(projections.size());
  for (const Term& term : terms_)
    added[term.output] = {columns(r, term), false, *read(*term.factors().b, r.scalar_type()), true};
  tensor_list outputs = kernels::project(x, projections, added);
  add_biases_and_magnitudes(outputs, kept);
  return outputs;
}

void LowRankTerms::add_biases_and_magnitudes(tensor_list& outputs, tensor_list* kept) {
  for (Term& term : terms_) {
    const LowRank& factors = term.factors();
    at::Tensor& y = outputs[term.output];
    if (factors.bias != nullptr) add_in_place(y, scaled(*factors.bias, factors.scale, at::kFloat));
    if (factors.magnitude == nullptr) continue;
    term.norms = row_norms(term.projection);
    if (kept != nullptr) kept->push_back(y);
    y = with_gain(y, gain(term), bias_of(term.projection));
  }
}

at::Tensor LowRankTerms::gain(const Term& term) const {
  at::Tensor values = scaled(*term.factors().magnitude, 1, at::kFloat).clone();
  for (int64_t i = 0; i < values.numel(); ++i) values.data_ptr<float>()[i] /= term.norms.data_ptr<float>()[i];
  return values;
}

void LowRankTerms::backward_of_magnitudes(tensor_list& d_outputs, at::ArrayRef<at::Tensor> kept) {
  size_t place = 1 + terms_.size();
  for (Term& term : terms_) {
    if (term.factors().magnitude == nullptr) continue;
    const at::Tensor& y = kept[place++];
    at::Tensor& dy = d_outputs[term.output];
    if (!dy.defined()) continue;
    term.magnitude.add([&](at::Tensor& gradient) {
      add_in_pieces(dy.size(0), gradient, [&](int64_t first, int64_t count, at::Tensor& sum) {
        const at::Tensor d_gain =
            gain_gradient(dy.narrow(0, first, count), y.narrow(0, first, count), bias_of(term.projection));
        for (int64_t i = 0; i < d_gain.numel(); ++i)
          d_gain.data_ptr<float>()[i] /= term.norms.data_ptr<float>()[i];
        add_in_place(sum, d_gain);
      });
    });
    dy = with_gain(dy, gain(term), {});
  }
}

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
    if (dy.defined()) {
      gemm(dy, false, scaled(*term.factors().b, term.factors().scale, d.scalar_type()), false, part);
    } else {
      part.zero_();
    }
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
