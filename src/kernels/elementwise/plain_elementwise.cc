// Norms, rotary embedding, residual sum and activations, as transformers writes and rounds them, and dropout,
// for which the host draws the factor of each element.
#include "base/arithmetic/counter_random.h"
#include "kernels/op.h"
#include "kernels/plain.h"

namespace trl::kernels::plain {

namespace {

at::Tensor layer_norm(const at::Tensor& wide, double eps) {
  const at::Tensor centred = wide - wide.mean(-1, true);
  return centred * (centred.square().mean(-1, true) + eps).rsqrt();
}

// x with rows that take turns: [tokens, groups, width] for a weight of [groups, width].
at::Tensor grouped(const at::Tensor& x, const at::Tensor& w) {
  return x.reshape({-1, w.numel() / w.size(-1), w.size(-1)});
}

}  // namespace

at::Tensor norm(const at::Tensor& x, const Norm& norm) {
  const at::ScalarType type = x.scalar_type();
  at::Tensor w = weight(x, *norm.weight);
  if (!norm.more.empty()) {
    std::vector<at::Tensor> rows{w};
    for (Parameter* const next : norm.more) rows.push_back(weight(x, *next));
    w = at::stack(rows);
  }
  if (norm.kind == NormKind::rms_offset) w = w.to(at::promote_types(w.scalar_type(), at::kFloat)) + 1;
  const at::Tensor wide = grouped(x.to(wide_type(x)), w);
  at::Tensor y = norm.kind == NormKind::layer ? layer_norm(wide, norm.eps)
                                              : wide * (wide.square().mean(-1, true) + norm.eps).rsqrt();
  if (norm.kind == NormKind::rms) y = y.to(type);
  y = y * w;
  if (norm.bias != nullptr) y = y + weight(x, *norm.bias);
  return y.to(type).view(x.sizes());
}

at::Tensor add(const at::Tensor& stream, const at::Tensor& branch, double branch_scale) {
  const at::ScalarType type = branch.scalar_type();
  const at::Tensor added =
      branch_scale == 1 ? branch : (branch.to(wide_type(branch)) * branch_scale).to(type);
  return (stream + added).to(stream.scalar_type());
}

Residual residual_norm(const at::Tensor& stream, const at::Tensor& branch, const Norm& norm,
                       double branch_scale) {
  const at::Tensor sum = branch.defined() ? plain::add(stream, branch, branch_scale) : stream;
  return {sum, plain::norm(sum, norm)};
}

namespace {

at::Tensor turned(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, RopeLayout layout) {
  const int64_t half = cos.size(1), rest = x.size(2) - 2 * half;
  const at::Tensor wide = x.to(wide_type(x)), c = cos.unsqueeze(1), s = sin.unsqueeze(1);
  const at::Tensor turned = wide.narrow(2, 0, 2 * half);
  const bool pairs = layout == RopeLayout::pairs;
  const at::Tensor first = pairs ? turned.slice(2, 0, 2 * half, 2) : turned.narrow(2, 0, half);
  const at::Tensor second = pairs ? turned.slice(2, 1, 2 * half, 2) : turned.narrow(2, half, half);
  const at::Tensor a = first * c - second * s, b = second * c + first * s;
  const at::Tensor both = pairs ? at::stack({a, b}, 3).flatten(2) : at::cat({a, b}, 2);
  return at::cat({both, wide.narrow(2, 2 * half, rest)}, 2).to(x.scalar_type());
}

}  // namespace

std::pair<at::Tensor, at::Tensor> rope(const at::Tensor& q, const at::Tensor& k, const at::Tensor& cos,
                                       const at::Tensor& sin, RopeLayout layout) {
  return {turned(q, cos, sin, layout), turned(k, cos, sin, layout)};
}

std::vector<at::Tensor> split_columns(const at::Tensor& x, at::IntArrayRef widths) {
  std::vector<at::Tensor> parts;
  for (const at::Tensor& part : x.split_with_sizes(widths, 1)) parts.push_back(part.contiguous());
  return parts;
}

at::Tensor activate(Activation kind, const at::Tensor& x) {
  switch (kind) {
    case Activation::silu:
      return at::silu(x);
    case Activation::relu:
      return at::relu(x);
    case Activation::relu_squared:
      return at::relu(x).square();
    case Activation::gelu:
      return at::gelu(x);
    case Activation::gelu_tanh:
      break;
  }
  return at::gelu(x, "tanh");
}

at::Tensor gated(Activation kind, const at::Tensor& gate, const at::Tensor& up) {
  return plain::activate(kind, gate) * up;
}

at::Tensor gated_halves(Activation kind, const at::Tensor& gate_up) {
  const std::vector<at::Tensor> half = gate_up.chunk(2, 1);
  return plain::gated(kind, half[0], half[1]);
}

at::Tensor dropout_factors(const Dropout& dropout, Range rows, Range columns) {
  const Drop drop = drop_of(dropout);
  const int64_t width = columns.end - columns.begin;
  at::Tensor factors = at::empty({rows.end - rows.begin, width}, at::kFloat);
  tensor::parallel_for(factors.size(0), 16, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      float* const row = factors.data_ptr<float>() + r * width;
      const base::CounterKey key = base::counter_key({drop.key, static_cast<uint64_t>(rows.begin + r)});
      for (int64_t c = 0; c < width; ++c) {
        const uint32_t bits = base::counter_bits(key, static_cast<uint32_t>(columns.begin + c));
        row[c] = static_cast<int32_t>(bits >> 8) >= drop.below ? drop.scale : 0.0f;
      }
    }
  });
  return factors;
}

at::Tensor dropout(const at::Tensor& x, const Dropout& dropout) {
  const int64_t width = x.size(-1), rows = width > 0 ? x.numel() / width : 0;
  const at::Tensor factors =
      dropout_factors(dropout, {dropout.row, dropout.row + rows}, {0, width}).to(x.device());
  return (x.to(wide_type(x)) * factors.view(x.sizes())).to(x.scalar_type());
}

}  // namespace trl::kernels::plain
