// RMSNorm and rotary embedding. The norm keeps x and one float per row.
#include "kernels/op.h"
#include "kernels/plain.h"

namespace trl::kernels {

namespace {

int64_t rows_of(const at::Tensor& x) { return x.numel() / x.size(-1); }

void* data_or_null(const at::Tensor& x) { return x.defined() ? x.data_ptr() : nullptr; }

// branch, rstd: may be undefined. The stream of the result is x itself without a branch.
Residual norm_forward(const at::Tensor& x, const at::Tensor& branch, Parameter& w, double eps,
                      const at::Tensor& rstd) {
  const tensor::Reading weight = w.read();
  at::Tensor y = tensor::empty_like(x, MemoryKind::activations), sum;
  if (branch.defined()) sum = tensor::empty_like(x, MemoryKind::activations);
  const RmsForward args{x.data_ptr(),       data_or_null(branch),
                        weight->data_ptr(), data_or_null(sum),
                        y.data_ptr(),       static_cast<float*>(data_or_null(rstd)),
                        x.size(-1),         static_cast<float>(eps),
                        type_of(x),         branch.defined() ? type_of(branch) : type_of(x),
                        type_of(*weight)};
  tensor::parallel_for(rows_of(x), 16,
                       [&](int64_t begin, int64_t end) { cpu().rms_forward(args, begin, end); });
  return {sum.defined() ? sum : x, y};
}

// The gradient of w is summed in pieces of rows whose borders depend on the shape alone, then over the pieces
// in order. d_sum: the gradient that x has elsewhere, or undefined.
at::Tensor norm_backward(const at::Tensor& dy, const at::Tensor& d_sum, const at::Tensor& x,
                         const at::Tensor& rstd, Parameter& w, tensor::Use& use) {
  const tensor::Reading weight = w.read();
  const int64_t rows = rows_of(x), width = x.size(-1);
  const int64_t piece = std::max<int64_t>(32, (rows + 63) / 64);
  const int64_t pieces = (rows + piece - 1) / piece;
  at::Tensor dx = tensor::empty_like(x, MemoryKind::activations);
  at::Tensor dw;
  if (use) dw = tensor::zeros({pieces, width}, at::kFloat, MemoryKind::workspace);
  tensor::parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const RmsBackward args{dy.data_ptr(),
                             data_or_null(d_sum),
                             x.data_ptr(),
                             weight->data_ptr(),
                             rstd.data_ptr<float>(),
                             dx.data_ptr(),
                             dw.defined() ? dw.data_ptr<float>() + p * width : nullptr,
                             width,
                             type_of(x),
                             type_of(*weight)};
      cpu().rms_backward(args, p * piece, std::min(rows, (p + 1) * piece));
    }
  });
  use.add([&](at::Tensor& gradient) { add_column_sums(dw, gradient); });
  use.end();
  return dx;
}

struct NormState {
  Parameter* w;
  tensor::Use use;
  std::optional<at::ScalarType> branch = {};  // its type
};

struct RmsNorm : torch::autograd::Function<RmsNorm> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, Parameter* w, double eps) {
    const at::Tensor rstd = tensor::empty({rows_of(x)}, at::kFloat, MemoryKind::activations);
    context->save_for_backward({x, rstd});
    keep(context, NormState{w, tensor::Use(*w)});
    return norm_forward(x, {}, *w, eps, rstd).normed;
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    auto& state = kept<NormState>(context);
    const auto saved = context->get_saved_variables();
    return {norm_backward(grads[0].contiguous(), {}, saved[0], saved[1], *state.w, state.use), {}, {}};
  }
};

// Its backward adds what comes along the stream and what comes through the norm, in one pass: the gradient of
// the stream before and, in its type, of the branch.
struct ResidualNorm : torch::autograd::Function<ResidualNorm> {
  static tensor_list forward(AutogradContext* context, const at::Tensor& x,
                             const c10::optional<at::Tensor>& branch, Parameter* w, double eps) {
    const at::Tensor rstd = tensor::empty({rows_of(x)}, at::kFloat, MemoryKind::activations);
    const Residual result = norm_forward(x, branch.value_or(at::Tensor()), *w, eps, rstd);
    const at::Tensor stream = branch ? result.stream : x.detach();
    context->save_for_backward({stream, rstd});
    keep(context,
         NormState{w, tensor::Use(*w), branch ? std::optional(branch->scalar_type()) : std::nullopt});
    return {stream, result.normed};
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    auto& state = kept<NormState>(context);
    const auto saved = context->get_saved_variables();
    at::Tensor dx = grads[0].defined() ? grads[0].contiguous() : at::Tensor();
    if (grads[1].defined())
      dx = norm_backward(grads[1].contiguous(), dx, saved[0], saved[1], *state.w, state.use);
    state.use.end();
    at::Tensor d_branch;
    if (state.branch) d_branch = converted(dx, *state.branch, MemoryKind::activations);
    return {dx, d_branch, {}, {}};
  }
};

bool rows_fit(const at::Tensor& x, const Parameter& w) {
  return x.dim() >= 1 && x.size(-1) == w.count() && x.size(-1) > 0 && x.is_contiguous();
}

std::pair<at::Tensor, at::Tensor> turn(const at::Tensor& q, const at::Tensor& k, const at::Tensor& cos,
                                       const at::Tensor& sin, bool inverse) {
  std::pair<at::Tensor, at::Tensor> turned;
  const auto args_of = [&](const at::Tensor& x, at::Tensor& y) {
    y = tensor::empty_like(x, MemoryKind::activations);
    return Rope{x.data_ptr(),          y.data_ptr(), cos.data_ptr<float>(),
                sin.data_ptr<float>(), x.size(1),    x.size(2),
                cos.size(1),           type_of(x),   inverse};
  };
  const Rope of_q = args_of(q, turned.first), of_k = args_of(k, turned.second);
  tensor::parallel_for(q.size(0), 16, [&](int64_t begin, int64_t end) {
    cpu().rope(of_q, begin, end);
    cpu().rope(of_k, begin, end);
  });
  return turned;
}

struct Turn : torch::autograd::Function<Turn> {
  static tensor_list forward(AutogradContext* context, const at::Tensor& q, const at::Tensor& k,
                             const at::Tensor& cos, const at::Tensor& sin) {
    context->save_for_backward({cos, sin});
    const auto [turned_q, turned_k] = turn(q, k, cos, sin, false);
    return {turned_q, turned_k};
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const auto saved = context->get_saved_variables();
    const auto [dq, dk] = turn(grads[0].contiguous(), grads[1].contiguous(), saved[0], saved[1], true);
    return {dq, dk, {}, {}};
  }
};

}  // namespace

at::Tensor rms_norm(const at::Tensor& x, Parameter& w, double eps) {
  need(rows_fit(x, w), "rms_norm", "contiguous rows as wide as the weight are needed");
  if (!fused(x)) return plain::rms_norm(x, w, eps);
  return records(x) ? RmsNorm::apply(x, &w, eps) : norm_forward(x, {}, w, eps, {}).normed;
}

Residual residual_norm(const at::Tensor& stream, const at::Tensor& branch, Parameter& w, double eps) {
  need(rows_fit(stream, w) &&
           (!branch.defined() || (branch.sizes() == stream.sizes() && branch.is_contiguous())),
       "residual_norm",
       "contiguous rows as wide as the weight, and a branch of the stream's shape are needed");
  if (!fused(stream)) {
    const at::Tensor sum = branch.defined() ? plain::add(stream, branch) : stream;
    return {sum, plain::rms_norm(sum, w, eps)};
  }
  if (!records(stream) && !(branch.defined() && records(branch))) {
    return norm_forward(stream, branch, w, eps, {});
  }
  const auto given = branch.defined() ? c10::optional<at::Tensor>(branch) : c10::nullopt;
  const tensor_list outputs = ResidualNorm::apply(stream, given, &w, eps);
  return {outputs[0], outputs[1]};
}

std::pair<at::Tensor, at::Tensor> rope(const at::Tensor& q, const at::Tensor& k, const at::Tensor& cos,
                                       const at::Tensor& sin) {
  const auto fits = [&](const at::Tensor& x) {
    return x.dim() == 3 && x.is_contiguous() && cos.size(0) == x.size(0) && 2 * cos.size(1) <= x.size(2);
  };
  need(cos.dim() == 2 && cos.sizes() == sin.sizes() && cos.scalar_type() == at::kFloat &&
           sin.scalar_type() == at::kFloat && cos.is_contiguous() && sin.is_contiguous() && fits(q) &&
           fits(k),
       "rope",
       "q, k [tokens, heads, head_dim] and float32 cos, sin [tokens, at most head_dim / 2] are needed");
  if (!fused(q)) return {plain::rope(q, cos, sin), plain::rope(k, cos, sin)};
  if (!records(q) && !records(k)) return turn(q, k, cos, sin, false);
  const tensor_list turned = Turn::apply(q, k, cos, sin);
  return {turned[0], turned[1]};
}

}  // namespace trl::kernels
