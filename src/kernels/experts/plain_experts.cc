// Routers and experts, as in transformers' eager code: one expert after the other, without those that have no
// token.
#include "kernels/op.h"
#include "kernels/plain.h"
#include "kernels/weight/narrow_weight.h"

namespace trl::kernels::plain {

namespace {

// One expert's matrix as part of x's graph.
struct ExpertState {
  tensor::Use use;
  int64_t expert;
};
struct ExpertLeaf : torch::autograd::Function<ExpertLeaf> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& /*anchor*/, Parameter* w,
                            int64_t expert) {
    keep(context, ExpertState{tensor::Use(*w), expert});
    return w->read()->select(0, expert).detach();
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    base::poll();
    auto& state = kept<ExpertState>(context);
    if (grads[0].defined())
      state.use.add([&](at::Tensor& gradient) { gradient.select(0, state.expert).add_(grads[0]); });
    state.use.end();
    return {{}, {}, {}};
  }
};
at::Tensor matrix(const at::Tensor& x, Parameter& w, int64_t expert) {
  return records(x) && w.has_gradient() ? ExpertLeaf::apply(x, &w, expert) : w.read()->select(0, expert);
}

// The product of rows with one expert's matrix, or with its copy.
at::Tensor multiplied(const at::Tensor& x, const at::Tensor& rows, Parameter& w, const NarrowWeight* copy,
                      int64_t expert) {
  if (copy == nullptr) return product(rows, matrix(x, w, expert).to(rows.scalar_type()));
  return narrow_product(rows, *copy, {}, {expert * w.size(1), w.size(1)});
}

// The low-rank terms of one of the matrices.
struct Terms {
  const double scale;
  at::Tensor a, b;  // b: [out, rank, experts]
  Terms(const at::Tensor& x, const LowRank& factors, int64_t experts) : scale(factors.scale) {
    if (factors.a == nullptr) return;
    a = weight(x, *factors.a);
    b = weight(x, *factors.b).view({factors.b->size(0), -1, experts});
  }
  // y, the output of an expert for x, with its terms
  at::Tensor added(const at::Tensor& y, const at::Tensor& x, int64_t expert) const {
    if (!a.defined()) return y;
    const int64_t r = b.size(1);
    const at::Tensor reduced = product(x, a.narrow(0, expert * r, r).to(x.scalar_type()));
    return y + product(reduced, (b.select(2, expert) * scale).to(x.scalar_type()));
  }
};

}  // namespace

Routing route(const at::Tensor& logits, int64_t k, bool normalised) {
  const at::Tensor p = logits.to(wide_type(logits)).softmax(-1);
  const at::Tensor order = std::get<1>(p.detach().sort(/*stable=*/true, -1, /*descending=*/true));
  const at::Tensor chosen = order.narrow(1, 0, k);
  at::Tensor weights = p.gather(1, chosen);
  if (normalised) weights = weights / weights.sum(-1, true);
  return {weights, chosen.to(at::kCPU, at::kInt).contiguous()};
}

at::Tensor experts(const at::Tensor& x, const Routing& routing, const ExpertWeights& weights, Activation kind,
                   at::ScalarType compute, const Again& /*again*/, Wanted /*wanted*/) {
  const at::Tensor operand = x.to(compute);
  at::Tensor y = at::zeros(x.sizes(), x.options().dtype(wide_type(operand)));
  const int64_t count = weights.gate_up->size(0);
  const Terms of_gate_up(x, weights.gate_up_terms, count), of_down(x, weights.down_terms, count);
  for (int64_t e = 0; e < count; ++e) {
    base::poll();
    const at::Tensor at_places = routing.experts.eq(e).nonzero().to(x.device());  // [assignments, 2]
    if (at_places.size(0) == 0) continue;
    const at::Tensor token = at_places.select(1, 0), place = at_places.select(1, 1);
    const at::Tensor own = operand.index_select(0, token);
    const at::Tensor inner = multiplied(x, own, *weights.gate_up, weights.gate_up_copy, e);
    const std::vector<at::Tensor> half = of_gate_up.added(inner, own, e).chunk(2, 1);
    const at::Tensor act = plain::activate(kind, half[0]) * half[1];
    const at::Tensor product_of_act = multiplied(x, act, *weights.down, weights.down_copy, e);
    const at::Tensor out = of_down.added(product_of_act, act, e);
    const at::Tensor share =
        routing.weights.flatten().index_select(0, token * routing.weights.size(1) + place).unsqueeze(1);
    y = y.index_add(0, token, (out.to(y.scalar_type()) * share).to(y.scalar_type()));
  }
  return y.to(compute);
}

at::Tensor add_gated(const at::Tensor& y, const at::Tensor& gate, const at::Tensor& branch) {
  return y + gate.view({-1, 1}).sigmoid() * branch;
}

at::Tensor balance_loss(at::ArrayRef<at::Tensor> logits, int64_t k, at::IntArrayRef rows) {
  at::Tensor assigned, probability, share;
  double all = 0;
  const int64_t experts = logits[0].size(1);
  if (!rows.empty()) share = at::tensor(rows).to(logits[0].device()).unsqueeze(1);
  for (const at::Tensor& layer : logits) {
    at::Tensor p = layer.to(wide_type(layer)).softmax(-1);
    const at::Tensor chosen = plain::route(layer.detach(), k, false).experts.to(layer.device()).to(at::kLong);
    at::Tensor count = at::one_hot(chosen, experts).sum(1);
    if (share.defined()) {
      p = p * share;
      count = count * share;
    }
    count = count.sum(0).to(p.scalar_type());
    assigned = assigned.defined() ? assigned + count : count;
    probability = probability.defined() ? probability + p.sum(0) : p.sum(0);
    all += share.defined() ? share.sum().item<double>() : static_cast<double>(layer.size(0));
  }
  return (assigned / all * (probability / all)).sum() * static_cast<double>(experts);
}

}  // namespace trl::kernels::plain
