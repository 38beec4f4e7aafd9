// Linear layers. Gradients of weights are added directly to their buffers, in their types, by a product that
// accumulates.
#include "kernels/backend.h"
#include "kernels/gemm/gemm.h"
#include "kernels/kept_outputs.h"
#include "kernels/linear/low_rank.h"
#include "kernels/op.h"
#include "kernels/weight/weight_product.h"
#include "tensor/device.h"

namespace trl::kernels {

namespace {

using Projections = std::vector<Projection>;

struct LinearState {
  Projections projections;
  std::vector<tensor::Use> weights, biases;  // one for each projection
  LowRankTerms low_rank;
  at::ScalarType x_type, compute;
};

bool is_defined(const at::Tensor& x) { return x.defined(); }

// terms_keep: gets the tensors that the terms need in backward; null: no backward.
tensor_list outputs_of(const at::Tensor& x, LowRankTerms& terms, at::ArrayRef<Projection> projections,
                       tensor_list* terms_keep, Wanted wanted) {
  if (wanted != Wanted::values || terms.has_magnitudes())
    return terms.project(x, projections, terms_keep, wanted);
  tensor_list all = made(Output::product, "linear", [&] {
    tensor_list keeps;
    const bool keeping = terms_keep != nullptr || KeptOutputs::current() != nullptr;
    tensor_list outputs = terms.project(x, projections, keeping ? &keeps : nullptr);
    outputs.insert(outputs.end(), keeps.begin(), keeps.end());
    return outputs;
  });
  const auto end = all.begin() + static_cast<std::ptrdiff_t>(projections.size());
  if (terms_keep != nullptr) terms_keep->assign(end, all.end());
  all.erase(end, all.end());
  return all;
}

// The products of all rows at once, and to them the terms of each adapter for its rows.
tensor_list outputs_by_rows(const at::Tensor& x, at::ArrayRef<Projection> projections) {
  tensor_list all = kernels::project(x, projections);
  int64_t first = 0;
  for (size_t part = 0; part < projections[0].by_rows.size(); ++part) {
    const int64_t rows = projections[0].by_rows[part].rows;
    Projections own = projections.vec();
    for (Projection& p : own) p.low_rank = p.by_rows[part].low_rank;
    tensor_list before;
    for (const at::Tensor& y : all) before.push_back(y.narrow(0, first, rows));
    tensor_list after = before;
    LowRankTerms(own).add_terms(x.narrow(0, first, rows), after);
    for (size_t i = 0; i < all.size(); ++i)
      if (!after[i].is_same(before[i])) tensor::copy(after[i], before[i]);
    first += rows;
  }
  return all;
}

struct Linear : torch::autograd::Function<Linear> {
  // anchor: set if x has no graph, and one begins here.
  static tensor_list forward(AutogradContext* context, const at::Tensor& x,
                             const c10::optional<at::Tensor>& /*anchor*/, const Projections& projections,
                             at::ScalarType compute, const Again& again, Wanted wanted) {
    const at::Tensor operand = converted(x, compute, MemoryKind::activations);
    LinearState state{projections, {}, {}, LowRankTerms(projections), x.scalar_type(), compute};
    tensor_list low_rank_keeps;
    tensor_list outputs = outputs_of(operand, state.low_rank, projections, &low_rank_keeps, wanted);
    bool trains = state.low_rank.needs_input();  // whether a trained weight needs x for its gradient
    for (const Projection& p : projections) {
      if (state.weights.emplace_back(*p.weight)) trains = true;
      state.biases.push_back(p.bias != nullptr ? tensor::Use(*p.bias) : tensor::Use());
    }
    if (trains && again) keep(context, "linear", again);
    tensor_list saved{trains && !again ? operand : at::Tensor()};
    saved.insert(saved.end(), low_rank_keeps.begin(), low_rank_keeps.end());
    keep(context, "linear", saved);
    keep(context, std::move(state));
    return outputs;
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    auto& state = kept<LinearState>(context);
    const tensor_list saved = kept(context);
    at::Tensor operand = saved[0];
    if (has_recipe(context)) operand = converted(made_again(context), state.compute, MemoryKind::activations);
    const at::ArrayRef<at::Tensor> low_rank_kept = at::ArrayRef<at::Tensor>(saved).slice(1);
    for (size_t i = 0; i < grads.size(); ++i) {
      if (grads[i].defined()) grads[i] = grads[i].contiguous();
      if (grads[i].defined()) state.biases[i].add([&](at::Tensor& sum) { add_column_sums(grads[i], sum); });
      state.biases[i].end();
    }
    at::Tensor dx;
    const auto dy = std::ranges::find_if(grads, is_defined);
    if (context->needs_input_grad(0) && dy != grads.end())
      dx = tensor::empty({dy->size(0), state.projections[0].in()}, state.x_type, MemoryKind::activations);
    if (!state.low_rank.empty())
      state.low_rank.backward(grads, state.projections, low_rank_kept, operand, dx);
    else if (dx.defined())
      input_gradient(grads, state.projections, {}, dx);
    for (size_t i = 0; i < grads.size(); ++i) {
      if (grads[i].defined()) add_weight_gradient(state, i, grads[i], operand);
      state.weights[i].end();
    }
    return {dx, {}, {}, {}, {}, {}};
  }

 private:
  static void add_weight_gradient(const LinearState& state, size_t i, const at::Tensor& dy,
                                  const at::Tensor& operand) {
    const bool transposed = state.projections[i].transposed;
    state.weights[i].add([&](at::Tensor& gradient) {
      gemm(transposed ? operand : dy, true, transposed ? dy : operand, false, gradient, 1.0f);
    });
  }
};

bool trains_terms(const Projection& p) {
  const LowRank& term = p.low_rank;
  const Parameter* const all[] = {term.a, term.b, term.bias, term.magnitude};
  return std::any_of(std::begin(all), std::end(all),
                     [](const Parameter* one) { return one != nullptr && one->has_gradient(); });
}

void check(const at::Tensor& x, const Projection& p) {
  need(x.dim() == 2 && p.weight->shape().size() == 2 && x.size(1) == p.in() && x.is_contiguous() &&
           (p.bias == nullptr || p.bias->count() == p.out()),
       "linear", "x [tokens, in], w [out, in] or transposed, b [out] are needed");
  if (const LowRank& term = p.low_rank; term.a != nullptr) {
    need(term.a->size(1) == p.in() && term.b->size(0) == p.out() && term.b->size(1) == term.rank() &&
             (term.bias == nullptr || term.bias->count() == p.out()) &&
             (term.magnitude == nullptr || term.magnitude->count() == p.out()),
         "linear", "a [rank, in], b [out, rank], and bias and magnitude [out] are needed");
  }
  type_of(x);
  type_of(p.weight->dtype());
}

}  // namespace

namespace fused_ops {

std::vector<at::Tensor> linear(const at::Tensor& x, at::ArrayRef<Projection> projections,
                               at::ScalarType compute, const Again& again, Wanted wanted) {
  c10::optional<at::Tensor> anchor;
  if (at::GradMode::is_enabled() && !x.requires_grad() && std::ranges::any_of(projections, trains_terms))
    anchor = graph_start();
  if (records(x) || anchor) return Linear::apply(x, anchor, projections.vec(), compute, again, wanted);
  const at::Tensor operand = converted(x, compute, MemoryKind::workspace);
  if (!projections[0].by_rows.empty()) return outputs_by_rows(operand, projections);
  LowRankTerms terms(projections);
  return outputs_of(operand, terms, projections, nullptr, wanted);
}

}  // namespace fused_ops

std::vector<at::Tensor> linear(const at::Tensor& x, at::ArrayRef<Projection> projections,
                               at::ScalarType compute, const Again& again, Wanted wanted) {
  for (const Projection& p : projections) check(x, p);
  return backend(x).linear(x, projections, compute, again, wanted);
}

at::Tensor linear(const at::Tensor& x, Parameter& w, Parameter* b, at::ScalarType compute,
                  const Again& again) {
  const Projection projection{&w, b};
  return linear(x, projection, compute, again)[0];
}

}  // namespace trl::kernels
