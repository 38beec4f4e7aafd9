// The ops that own large weights, and the bridge from autograd to Parameter::grad.
#include "base/counter.h"
#include "kernels/op.h"
#include "kernels/plain.h"

namespace trl::kernels::plain {

namespace {

// anchor: puts the node between the weight's uses and a tensor that gradients are asked for.
struct WeightLeaf : torch::autograd::Function<WeightLeaf> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& /*anchor*/, Parameter* w) {
    keep(context, w);
    return w->value.detach();
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    if (grads[0].defined()) kept<Parameter*>(context)->grad.add_(grads[0]);
    return {{}, {}};
  }
};

// The draws of Noise, [tokens, width] in float32.
at::Tensor noise_values(int64_t tokens, int64_t width, const Noise& noise) {
  at::Tensor values = tensor::empty({tokens, width}, at::kFloat, MemoryKind::workspace);
  auto* const value = values.data_ptr<float>();
  for (int64_t t = 0; t < tokens; ++t) {
    const base::CounterKey key = base::counter_key({noise.key, static_cast<uint64_t>(t)});
    for (int64_t i = 0; i < width; ++i) {
      value[t * width + i] =
          static_cast<float>(noise.size) * base::counter_uniform(key, static_cast<uint32_t>(i));
    }
  }
  return values;
}

}  // namespace

at::Tensor weight(const at::Tensor& x, Parameter& w) {
  return records(x) && w.trainable() ? WeightLeaf::apply(x, &w) : w.value;
}

std::vector<at::Tensor> linear(const at::Tensor& x, at::ArrayRef<Projection> projections,
                               at::ScalarType compute) {
  const at::Tensor operand = x.to(compute);
  std::vector<at::Tensor> outputs;
  for (const Projection& p : projections) {
    at::Tensor bias;
    if (p.bias != nullptr) bias = weight(x, *p.bias).to(compute);
    outputs.push_back(at::linear(operand, weight(x, *p.weight).to(compute), bias));
  }
  return outputs;
}

at::Tensor embedding(const at::Tensor& anchor, const at::Tensor& ids, Parameter& w, const Noise& noise) {
  const at::Tensor rows =
      at::embedding(weight(anchor, w), ids.to(w.value.device()).to(at::kLong), w.padding_row);
  if (noise.size == 0) return rows;
  return (rows.to(wide_type(rows)) + noise_values(rows.size(0), rows.size(1), noise).to(rows.device()))
      .to(rows.scalar_type());
}

}  // namespace trl::kernels::plain
