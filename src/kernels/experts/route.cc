// Routers: the choice of experts for each token, and the loss that keeps experts evenly busy.
#include <numeric>

#include "kernels/backend.h"
#include "kernels/experts/experts.h"
#include "kernels/op.h"

namespace trl::kernels {

namespace {

// Calls body(row, its probabilities) for each row of logits, rows in pieces of kPiece; `own` is the number of
// the piece.
constexpr int64_t kPiece = 64;
int64_t pieces_of(const at::Tensor& logits) { return (logits.size(0) + kPiece - 1) / kPiece; }
template <typename Body>
void each_row(const at::Tensor& logits, const Body& body) {
  const int64_t experts = logits.size(1);
  each_with_work(pieces_of(logits), experts, [&](int64_t piece, float* p) {
    const int64_t end = std::min(logits.size(0), (piece + 1) * kPiece);
    for (int64_t row = piece * kPiece; row < end; ++row) {
      cpu().softmax(at_byte(logits, row * experts), type_of(logits), p, experts);
      body(piece, row, p);
    }
  });
}

// Chooses the k largest of p, in falling order; of equal ones the first. A NaN is only chosen if nothing else
// is left.
void choose(const float* p, int64_t experts, int64_t k, int32_t* chosen) {
  int64_t count = 0;
  for (int64_t e = 0; e < experts; ++e) {
    int64_t at = count;
    while (at > 0 && !(p[chosen[at - 1]] >= p[e])) --at;
    if (at == k) continue;
    if (count < k) ++count;
    std::copy_backward(chosen + at, chosen + count - 1, chosen + count);
    chosen[at] = static_cast<int32_t>(e);
  }
}

Routing choose_experts(const at::Tensor& logits, int64_t k, bool normalised) {
  const int64_t tokens = logits.size(0), experts = logits.size(1);
  Routing routing{tensor::empty({tokens, k}, at::kFloat, MemoryKind::activations),
                  tensor::empty({tokens, k}, at::kInt, MemoryKind::activations)};
  each_row(logits, [&](int64_t, int64_t row, const float* p) {
    float* const weight = routing.weights.data_ptr<float>() + row * k;
    int32_t* const chosen = routing.experts.data_ptr<int32_t>() + row * k;
    choose(p, experts, k, chosen);
    float sum = 0;
    for (int64_t i = 0; i < k; ++i) sum += weight[i] = p[chosen[i]];
    for (int64_t i = 0; normalised && i < k; ++i) weight[i] /= sum;
  });
  return routing;
}

// dz = p (g - sum g p), where g is the gradient of p.
void softmax_backward(const float* p, const float* g, int64_t count, float* dz) {
  const float along = std::inner_product(p, p + count, g, 0.0f);
  for (int64_t i = 0; i < count; ++i) dz[i] = p[i] * (g[i] - along);
}

// The gradient g of the chosen probabilities, from that of their weights: w = p, or p / sum of the chosen.
void spread_gradient(const float* d_weight, const float* p, const int32_t* chosen, int64_t k, bool normalised,
                     float* g) {
  float sum = 0, along = 0;
  for (int64_t i = 0; i < k; ++i) sum += p[chosen[i]];
  for (int64_t i = 0; normalised && i < k; ++i) along += d_weight[i] * p[chosen[i]] / sum;
  for (int64_t i = 0; i < k; ++i) g[chosen[i]] = normalised ? (d_weight[i] - along) / sum : d_weight[i];
}

struct Choose : torch::autograd::Function<Choose> {
  static tensor_list forward(AutogradContext* context, const at::Tensor& logits, int64_t k, bool normalised) {
    const Routing routing = choose_experts(logits, k, normalised);
    keep(context, "route", {logits, routing.experts});
    context->mark_non_differentiable({routing.experts});
    keep(context, normalised);
    return {routing.weights, routing.experts};
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const tensor_list saved = kept(context);
    const at::Tensor &logits = saved[0], &chosen = saved[1], d_weights = grads[0].contiguous();
    const int64_t experts = logits.size(1), k = chosen.size(1);
    const at::Tensor dz = tensor::empty_like(logits, MemoryKind::activations);
    const at::Tensor work = tensor::empty({pieces_of(logits), 2, experts}, at::kFloat, MemoryKind::workspace);
    each_row(logits, [&](int64_t piece, int64_t row, const float* p) {
      float* const g = work.data_ptr<float>() + piece * 2 * experts;
      std::fill(g, g + experts, 0.0f);
      spread_gradient(d_weights.data_ptr<float>() + row * k, p, chosen.data_ptr<int32_t>() + row * k, k,
                      kept<bool>(context), g);
      softmax_backward(p, g, experts, g + experts);
      cpu().convert(g + experts, Type::f32, at_byte(dz, row * experts), type_of(dz), experts);
    });
    return {dz, {}, {}};
  }
};

// Sums over the rows of all layers, [experts] each.
struct Balance {
  std::vector<double> assigned, probability;
  double rows = 0;
  const std::vector<float> counts;  // the number that each row counts as; empty: one each

  Balance(int64_t experts, at::IntArrayRef of_rows)
      : assigned(static_cast<size_t>(experts)),
        probability(static_cast<size_t>(experts)),
        counts(of_rows.begin(), of_rows.end()) {}

  float count(int64_t row) const { return counts.empty() ? 1 : counts[static_cast<size_t>(row)]; }

  void add(const at::Tensor& logits, int64_t k) {
    const int64_t experts = logits.size(1), pieces = pieces_of(logits);
    const at::Tensor sums = tensor::zeros({pieces, 2, experts}, at::kFloat, MemoryKind::workspace);
    const at::Tensor chosen = tensor::empty({pieces, k}, at::kInt, MemoryKind::workspace);
    each_row(logits, [&](int64_t piece, int64_t row, const float* p) {
      float* const sum = sums.data_ptr<float>() + piece * 2 * experts;
      int32_t* const own = chosen.data_ptr<int32_t>() + piece * k;
      const float times = count(row);
      choose(p, experts, k, own);
      for (int64_t i = 0; i < k; ++i) sum[own[i]] += times;
      for (int64_t e = 0; e < experts; ++e) sum[experts + e] += times * p[e];
    });
    for (int64_t piece = 0; piece < pieces; ++piece) {
      const float* const sum = sums.data_ptr<float>() + piece * 2 * experts;
      for (int64_t e = 0; e < experts; ++e) {
        assigned[static_cast<size_t>(e)] += static_cast<double>(sum[e]);
        probability[static_cast<size_t>(e)] += static_cast<double>(sum[experts + e]);
      }
    }
    rows += counts.empty() ? static_cast<double>(logits.size(0))
                           : std::accumulate(counts.begin(), counts.end(), 0.0);
  }
  double loss() const {
    const double products = std::inner_product(assigned.begin(), assigned.end(), probability.begin(), 0.0);
    return static_cast<double>(assigned.size()) * products / (rows * rows);
  }
};

Balance balance_of(at::ArrayRef<at::Tensor> logits, int64_t k, at::IntArrayRef rows) {
  Balance balance(logits[0].size(1), rows);
  for (const at::Tensor& layer : logits) balance.add(layer, k);
  return balance;
}

struct BalanceLoss : torch::autograd::Function<BalanceLoss> {
  static at::Tensor forward(AutogradContext* context, at::ArrayRef<at::Tensor> logits, int64_t k,
                            at::IntArrayRef rows) {
    Balance balance = balance_of(logits, k, rows);
    keep(context, "balance", tensor_list(logits.vec()));
    keep(context, balance);
    return scalar(balance.loss());
  }
  // Treats the numbers of assignments as constants.
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const auto& balance = kept<Balance>(context);
    const auto experts = std::ssize(balance.assigned);
    const double scale =
        grads[0].item<double>() * static_cast<double>(experts) / (balance.rows * balance.rows);
    std::vector<float> g;
    for (const double assigned : balance.assigned) g.push_back(static_cast<float>(scale * assigned));
    tensor_list gradients;
    for (const at::Tensor& logits : kept(context)) {
      const at::Tensor dz = tensor::empty_like(logits, MemoryKind::activations);
      const at::Tensor work = tensor::empty({pieces_of(logits), experts}, at::kFloat, MemoryKind::workspace);
      each_row(logits, [&](int64_t piece, int64_t row, const float* p) {
        float* const own = work.data_ptr<float>() + piece * experts;
        softmax_backward(p, g.data(), experts, own);
        if (const float times = balance.count(row); times != 1)
          std::transform(own, own + experts, own, [&](float d) { return times * d; });
        cpu().convert(own, Type::f32, at_byte(dz, row * experts), type_of(dz), experts);
      });
      gradients.push_back(dz);
    }
    gradients.insert(gradients.end(), 2, at::Tensor());
    return gradients;
  }
};

bool routes(const at::Tensor& logits, int64_t k) {
  return logits.dim() == 2 && logits.is_contiguous() && k > 0 && k <= logits.size(1);
}

}  // namespace

namespace fused_ops {

Routing route(const at::Tensor& logits, int64_t k, bool normalised) {
  if (!records(logits)) return choose_experts(logits, k, normalised);
  const tensor_list outputs = Choose::apply(logits, k, normalised);
  return {outputs[0], outputs[1]};
}

at::Tensor balance_loss(at::ArrayRef<at::Tensor> logits, int64_t k, at::IntArrayRef rows) {
  if (std::ranges::any_of(logits, records)) return BalanceLoss::apply(logits, k, rows);
  return scalar(balance_of(logits, k, rows).loss());
}

}  // namespace fused_ops

Routing route(const at::Tensor& logits, int64_t k, bool normalised) {
  need(routes(logits, k), "route",
       "contiguous logits [tokens, experts] and a k of at most experts are needed");
  return backend(logits).route(logits, k, normalised);
}

at::Tensor balance_loss(at::ArrayRef<at::Tensor> logits, int64_t k, at::IntArrayRef rows) {
  need(!logits.empty(), "balance_loss", "logits of at least one layer are needed");
  for (const at::Tensor& layer : logits) {
    need(routes(layer, k) && layer.size(1) == logits[0].size(1) && layer.size(0) > 0 &&
             (rows.empty() || std::ssize(rows) == layer.size(0)),
         "balance_loss",
         "contiguous logits [tokens, experts] of each layer, a k of at most experts, and for each token the "
         "rows that it counts as, or none, are needed");
  }
  return backend(logits[0]).balance_loss(logits, k, rows);
}

}  // namespace trl::kernels
