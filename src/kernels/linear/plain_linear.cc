// The ops that own large weights, and the bridge from autograd to the gradients of parameters.
#include "base/arithmetic/counter_random.h"
#include "kernels/linear/embedding_terms.h"
#include "kernels/linear/low_rank.h"
#include "kernels/op.h"
#include "kernels/plain.h"
#include "kernels/weight/narrow_weight.h"

namespace trl::kernels::plain {

namespace {

// anchor: puts the node between the weight's uses and a tensor that requires a gradient.
struct WeightLeaf : torch::autograd::Function<WeightLeaf> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& /*anchor*/, Parameter* w) {
    keep(context, tensor::Use(*w));
    return w->read()->detach();
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    base::poll();
    auto& use = kept<tensor::Use>(context);
    if (grads[0].defined()) use.add([&](at::Tensor& gradient) { gradient.add_(grads[0]); });
    use.end();
    return {{}, {}};
  }
};

// Sums rows of the gradient in float32, or in double if the gradient is double.
void add_rows(const at::Tensor& dy, const at::Tensor& ids, int64_t padding_row, at::Tensor& gradient) {
  const auto [rows, place] = at::_unique(ids, /*sorted=*/true, /*return_inverse=*/true);
  const at::ScalarType wide = wide_type(dy);
  at::Tensor sums = at::embedding_dense_backward(dy.to(wide), place, rows.numel(), /*padding_idx=*/-1, false);
  sums.masked_fill_(rows.eq(padding_row).unsqueeze(1), 0);
  gradient.index_copy_(0, rows, (gradient.index_select(0, rows).to(wide) + sums).to(gradient.scalar_type()));
}

struct LookupState {
  tensor::Use table;
  int64_t padding_row;
};

struct Lookup : torch::autograd::Function<Lookup> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& /*anchor*/, const at::Tensor& ids,
                            Parameter* w) {
    if (w->has_gradient()) keep(context, "embedding", {ids});
    keep(context, LookupState{tensor::Use(*w), w->padding_row});
    return at::embedding(w->read()->detach(), ids);
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    auto& state = kept<LookupState>(context);
    state.table.add(
        [&](at::Tensor& gradient) { add_rows(grads[0], kept(context)[0], state.padding_row, gradient); });
    state.table.end();
    return {{}, {}, {}};
  }
};

// The draws of Noise, [tokens, width] in float32.
at::Tensor noise_values(int64_t tokens, int64_t width, const Noise& noise) {
  at::Tensor values = tensor::empty({tokens, width}, at::kFloat, MemoryKind::workspace);
  auto* const value = values.data_ptr<float>();
  for (int64_t t = 0; t < tokens; ++t) {
    const base::CounterKey key = base::counter_key({noise.key, static_cast<uint64_t>(noise.row + t)});
    for (int64_t i = 0; i < width; ++i) {
      value[t * width + i] =
          static_cast<float>(noise.size) * base::counter_uniform(key, static_cast<uint32_t>(i));
    }
  }
  return values;
}

// Adds the terms to y, the output of the projection with this bias. Terms that add zero leave every bit of it
// unchanged.
at::Tensor adapted(const at::Tensor& y, const at::Tensor& x, const Projection& p, const at::Tensor& bias) {
  const LowRank& term = p.low_rank;
  const at::Tensor anchor = x.requires_grad() ? x : graph_start();
  const at::Tensor a = weight(anchor, *term.a), b = weight(anchor, *term.b);
  const at::ScalarType compute = a.scalar_type() == at::kBFloat16 ? at::kBFloat16 : x.scalar_type();
  const at::Tensor operand = term.dropout.rate > 0 ? plain::dropout(x, term.dropout) : x;
  const at::Tensor reduced = product(operand.to(compute), a.to(compute));
  at::Tensor sum = y + product(reduced * term.scale, b.to(compute));
  if (term.bias != nullptr) sum = sum + (weight(anchor, *term.bias) * term.scale).to(y.scalar_type());
  if (term.magnitude == nullptr) return sum;
  const at::Tensor gain = weight(anchor, *term.magnitude) / plain::row_norms(p);
  const at::Tensor alone = bias.defined() ? sum - bias : sum;
  return sum + alone * (gain - 1).to(y.scalar_type());
}

// Each part of the rows with its own terms.
std::vector<at::Tensor> linear_by_rows(const at::Tensor& x, at::ArrayRef<Projection> projections,
                                       at::ScalarType compute) {
  std::vector<std::vector<at::Tensor>> parts(projections.size());
  int64_t first = 0;
  for (size_t part = 0; part < projections[0].by_rows.size(); ++part) {
    std::vector<Projection> own = projections.vec();
    for (Projection& p : own) p.low_rank = std::exchange(p.by_rows, {})[part].low_rank;
    const int64_t rows = projections[0].by_rows[part].rows;
    const std::vector<at::Tensor> outputs = plain::linear(x.narrow(0, first, rows), own, compute, {}, {});
    for (size_t i = 0; i < outputs.size(); ++i) parts[i].push_back(outputs[i]);
    first += rows;
  }
  std::vector<at::Tensor> all;
  for (const std::vector<at::Tensor>& of : parts) all.push_back(at::cat(of));
  return all;
}

}  // namespace

at::Tensor row_norms(const Projection& p) {
  const at::Tensor base = p.weight->read()->detach();
  const at::ScalarType wide = wide_type(base);
  const at::Tensor a = p.low_rank.a->read()->to(wide), b = p.low_rank.b->read()->to(wide);
  const at::Tensor whole = (p.transposed ? base.t() : base).to(wide) + b.mm(a) * p.low_rank.scale;
  return at::norm(whole, 2, {1}, false, at::kDouble).to(wide);
}

at::Tensor weight(const at::Tensor& x, Parameter& w) {
  return records(x) && w.has_gradient() ? WeightLeaf::apply(x, &w) : *w.read();
}

at::Tensor product(const at::Tensor& x, const at::Tensor& w, const at::Tensor& bias) {
  if (x.scalar_type() != at::kBFloat16 || !x.is_cpu()) return at::linear(x, w, bias);
  const at::Tensor wide_bias = bias.defined() ? bias.to(at::kFloat) : bias;
  return at::linear(x.to(at::kFloat), w.to(at::kFloat), wide_bias).to(at::kBFloat16);
}

std::vector<at::Tensor> linear(const at::Tensor& x, at::ArrayRef<Projection> projections,
                               at::ScalarType compute, const Again& /*again*/, Wanted /*wanted*/) {
  base::poll();
  if (!projections[0].by_rows.empty()) return linear_by_rows(x, projections, compute);
  const at::Tensor operand = x.to(compute);
  std::vector<at::Tensor> outputs;
  for (const Projection& p : projections) {
    at::Tensor bias;
    if (p.bias != nullptr) bias = weight(x, *p.bias).to(compute);
    at::Tensor y;
    if (p.narrow != nullptr) {
      y = narrow_product(operand, *p.narrow, bias);
    } else {
      const at::Tensor w = weight(x, *p.weight).to(compute), matrix = p.transposed ? w.t() : w;
      y = product(operand, matrix, bias);
    }
    outputs.push_back(p.low_rank.a == nullptr ? y : adapted(y, operand, p, bias));
  }
  return outputs;
}

at::Tensor embedding(const at::Tensor& anchor, const at::Tensor& ids, Parameter& w,
                     const EmbeddingOptions& options) {
  const at::Tensor row = ids.to(w.device()).to(at::kLong);
  const at::Tensor rows = records(anchor) ? Lookup::apply(anchor, row, &w) : at::embedding(*w.read(), row);
  at::Tensor y = rows.to(wide_type(rows));
  if (const OwnRows* const own = options.own_rows; own != nullptr && own->rows != nullptr) {
    const at::Tensor place = places_of(ids, *own).to(w.device()).to(at::kLong);
    const at::Tensor trained = at::embedding(weight(anchor, *own->rows), place.clamp_min(0));
    y = at::where(place.ge(0).unsqueeze(1), trained.to(y.scalar_type()), y);
  }
  if (const LowRank& term = options.low_rank; term.a != nullptr) {
    const at::Tensor a = weight(anchor, *term.a).t(), b = weight(anchor, *term.b);
    y = y + product(at::embedding(a, row, w.padding_row), b).to(y.scalar_type()) * term.scale;
  }
  if (options.scale != 1) y = y * rounded(options.scale, rows.scalar_type());
  if (options.noise.size != 0)
    y = y + noise_values(rows.size(0), rows.size(1), options.noise).to(rows.device());
  if (options.multiplier != 1) y = y * options.multiplier;
  return y.to(options.type.value_or(rows.scalar_type()));
}

}  // namespace trl::kernels::plain
