// RMSNorm, rotary embedding, residual sum and gated activation, as transformers writes and rounds them.
#include "kernels/plain.h"

namespace trl::kernels::plain {

at::Tensor rms_norm(const at::Tensor& x, Parameter& w, double eps) {
  const at::Tensor wide = x.to(wide_type(x));
  const at::Tensor normal = (wide * (wide.square().mean(-1, true) + eps).rsqrt()).to(x.scalar_type());
  return (normal * weight(x, w)).to(x.scalar_type());
}

at::Tensor add(const at::Tensor& stream, const at::Tensor& branch) {
  return (stream + branch).to(stream.scalar_type());
}

at::Tensor rope(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  const int64_t half = cos.size(1), rest = x.size(2) - 2 * half;
  const at::Tensor wide = x.to(wide_type(x)), c = cos.unsqueeze(1), s = sin.unsqueeze(1);
  const at::Tensor first = wide.narrow(2, 0, half), second = wide.narrow(2, half, half);
  return at::cat({first * c - second * s, second * c + first * s, wide.narrow(2, 2 * half, rest)}, 2)
      .to(x.scalar_type());
}

at::Tensor gated(Gate kind, const at::Tensor& gate, const at::Tensor& up) {
  if (kind == Gate::silu) return at::silu(gate) * up;
  return at::gelu(gate, kind == Gate::gelu_tanh ? "tanh" : "none") * up;
}

}  // namespace trl::kernels::plain
