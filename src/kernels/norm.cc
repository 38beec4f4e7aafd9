// RMSNorm and rotary embedding. The norm keeps x and one float per row.
#include "kernels/op.h"
#include "kernels/plain.h"

namespace trl::kernels {

namespace {

int64_t rows_of(const at::Tensor& x) { return x.numel() / x.size(-1); }

at::Tensor rms_norm_forward(const at::Tensor& x, const Parameter& w, double eps, at::Tensor* rstd) {
  at::Tensor y = tensor::empty_like(x, MemoryKind::activations);
  const RmsForward args{x.data_ptr(), w.value.data_ptr(),
                        y.data_ptr(), rstd != nullptr ? rstd->data_ptr<float>() : nullptr,
                        x.size(-1),   static_cast<float>(eps),
                        type_of(x),   type_of(w.value)};
  tensor::parallel_for(rows_of(x), 16,
                       [&](int64_t begin, int64_t end) { cpu().rms_forward(args, begin, end); });
  return y;
}

// The gradient of w is summed in pieces of rows whose borders depend on the shape alone, then over the pieces
// in order.
at::Tensor rms_norm_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& rstd,
                             Parameter& w) {
  const int64_t rows = rows_of(x), width = x.size(-1);
  const int64_t piece = std::max<int64_t>(32, (rows + 63) / 64);
  const int64_t pieces = (rows + piece - 1) / piece;
  at::Tensor dx = tensor::empty_like(x, MemoryKind::activations);
  at::Tensor dw;
  if (w.trainable()) dw = tensor::zeros({pieces, width}, at::kFloat, MemoryKind::workspace);
  tensor::parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const RmsBackward args{dy.data_ptr(),
                             x.data_ptr(),
                             w.value.data_ptr(),
                             rstd.data_ptr<float>(),
                             dx.data_ptr(),
                             dw.defined() ? dw.data_ptr<float>() + p * width : nullptr,
                             width,
                             type_of(x),
                             type_of(w.value)};
      cpu().rms_backward(args, p * piece, std::min(rows, (p + 1) * piece));
    }
  });
  if (dw.defined()) add_column_sums(dw, w.grad);
  return dx;
}

struct RmsNorm : torch::autograd::Function<RmsNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, Parameter* w, double eps) {
    at::Tensor rstd = tensor::empty({rows_of(x)}, at::kFloat, MemoryKind::activations);
    at::Tensor y = rms_norm_forward(x, *w, eps, &rstd);
    context->save_for_backward({x, rstd});
    keep(context, w);
    return y;
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const auto saved = context->get_saved_variables();
    return {rms_norm_backward(grads[0].contiguous(), saved[0], saved[1], *kept<Parameter*>(context)), {}, {}};
  }
};

at::Tensor rope_turn(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, bool inverse) {
  at::Tensor y = tensor::empty_like(x, MemoryKind::activations);
  const Rope args{x.data_ptr(),          y.data_ptr(), cos.data_ptr<float>(),
                  sin.data_ptr<float>(), x.size(1),    x.size(2),
                  cos.size(1),           type_of(x),   inverse};
  tensor::parallel_for(x.size(0), 16, [&](int64_t begin, int64_t end) { cpu().rope(args, begin, end); });
  return y;
}

struct Turn : torch::autograd::Function<Turn> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& cos,
                            const at::Tensor& sin) {
    context->save_for_backward({cos, sin});
    return rope_turn(x, cos, sin, false);
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const auto saved = context->get_saved_variables();
    return {rope_turn(grads[0].contiguous(), saved[0], saved[1], true), {}, {}};
  }
};

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, Parameter& w, double eps) {
  need(x.dim() >= 1 && x.size(-1) == w.value.numel() && x.size(-1) > 0 && x.is_contiguous(), "rms_norm",
       "contiguous rows as wide as the weight are needed");
  if (!fused(x)) return plain::rms_norm(x, w, eps);
  return records(x) ? RmsNorm::apply(x, &w, eps) : rms_norm_forward(x, w, eps, nullptr);
}

at::Tensor rope(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin) {
  need(x.dim() == 3 && x.is_contiguous() && cos.dim() == 2 && cos.size(0) == x.size(0) &&
           cos.sizes() == sin.sizes() && 2 * cos.size(1) <= x.size(2) && cos.scalar_type() == at::kFloat &&
           sin.scalar_type() == at::kFloat && cos.is_contiguous() && sin.is_contiguous(),
       "rope", "x [tokens, heads, head_dim] and float32 cos, sin [tokens, at most head_dim / 2] are needed");
  if (!fused(x)) return plain::rope(x, cos, sin);
  return records(x) ? Turn::apply(x, cos, sin) : rope_turn(x, cos, sin, false);
}

}  // namespace trl::kernels
