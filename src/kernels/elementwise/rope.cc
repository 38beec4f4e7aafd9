// Rotary embedding, and the splitting of a fused projection for it.
#include <numeric>

#include "kernels/backend.h"
#include "kernels/op.h"

namespace trl::kernels {

namespace {

std::pair<at::Tensor, at::Tensor> turn(const at::Tensor& q, const at::Tensor& k, const at::Tensor& cos,
                                       const at::Tensor& sin, RopeLayout layout, bool inverse) {
  std::pair<at::Tensor, at::Tensor> turned;
  const auto args_of = [&](const at::Tensor& x, at::Tensor& y) {
    y = tensor::empty_like(x, MemoryKind::activations);
    return Rope{x.data_ptr(), y.data_ptr(), cos.data_ptr<float>(), sin.data_ptr<float>(),
                x.size(1),    x.size(2),    cos.size(1),           type_of(x),
                layout,       inverse};
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
                             const at::Tensor& cos, const at::Tensor& sin, RopeLayout layout) {
    keep(context, "rope", {cos, sin});
    keep(context, layout);
    const auto [turned_q, turned_k] = turn(q, k, cos, sin, layout, false);
    return {turned_q, turned_k};
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const tensor_list saved = kept(context);
    const auto [dq, dk] = turn(grads[0].contiguous(), grads[1].contiguous(), saved[0], saved[1],
                               kept<RopeLayout>(context), true);
    return {dq, dk, {}, {}, {}};
  }
};

// Copies columns [first, first + part's width) of x, out or back in.
enum class Copy : uint8_t { out, in };
void copy_columns(Copy copy, const at::Tensor& x, int64_t first, const at::Tensor& part) {
  const auto bytes = static_cast<size_t>(part.size(1)) * part.element_size();
  tensor::parallel_for(x.size(0), 64, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      char* const in_x = at_byte(x, r * x.size(1) + first);
      char* const in_part = at_byte(part, r * part.size(1));
      std::memcpy(copy == Copy::out ? in_part : in_x, copy == Copy::out ? in_x : in_part, bytes);
    }
  });
}

tensor_list split_forward(const at::Tensor& x, at::IntArrayRef widths) {
  tensor_list parts;
  int64_t first = 0;
  for (const int64_t width : widths) {
    parts.push_back(tensor::empty({x.size(0), width}, x.scalar_type(), MemoryKind::activations));
    copy_columns(Copy::out, x, first, parts.back());
    first += width;
  }
  return parts;
}

struct SplitState {
  std::vector<int64_t> widths;
  at::ScalarType type;
  int64_t rows;
};
struct Split : torch::autograd::Function<Split> {
  static tensor_list forward(AutogradContext* context, const at::Tensor& x, at::IntArrayRef widths) {
    keep(context, SplitState{widths.vec(), x.scalar_type(), x.size(0)});
    return split_forward(x, widths);
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const auto& state = kept<SplitState>(context);
    const int64_t width = std::accumulate(state.widths.begin(), state.widths.end(), int64_t{0});
    const at::Tensor dx = tensor::empty({state.rows, width}, state.type, MemoryKind::activations);
    int64_t first = 0;
    for (size_t i = 0; i < grads.size(); first += state.widths[i++]) {
      if (!grads[i].defined())
        grads[i] = tensor::zeros({state.rows, state.widths[i]}, state.type, MemoryKind::workspace);
      copy_columns(Copy::in, dx, first, grads[i].contiguous());
    }
    return {dx, {}};
  }
};

}  // namespace

namespace fused_ops {

std::pair<at::Tensor, at::Tensor> rope(const at::Tensor& q, const at::Tensor& k, const at::Tensor& cos,
                                       const at::Tensor& sin, RopeLayout layout) {
  if (!records(q) && !records(k)) return turn(q, k, cos, sin, layout, false);
  const tensor_list turned = Turn::apply(q, k, cos, sin, layout);
  return {turned[0], turned[1]};
}

std::vector<at::Tensor> split_columns(const at::Tensor& x, at::IntArrayRef widths) {
  return records(x) ? Split::apply(x, widths) : split_forward(x, widths);
}

}  // namespace fused_ops

std::pair<at::Tensor, at::Tensor> rope(const at::Tensor& q, const at::Tensor& k, const at::Tensor& cos,
                                       const at::Tensor& sin, RopeLayout layout) {
  const auto fits = [&](const at::Tensor& x) {
    return x.dim() == 3 && x.is_contiguous() && cos.size(0) == x.size(0) && 2 * cos.size(1) <= x.size(2);
  };
  need(cos.dim() == 2 && cos.sizes() == sin.sizes() && cos.scalar_type() == at::kFloat &&
           sin.scalar_type() == at::kFloat && cos.is_contiguous() && sin.is_contiguous() && fits(q) &&
           fits(k),
       "rope",
       "q, k [tokens, heads, head_dim] and float32 cos, sin [tokens, at most head_dim / 2] are needed");
  return backend(q).rope(q, k, cos, sin, layout);
}

std::vector<at::Tensor> split_columns(const at::Tensor& x, at::IntArrayRef widths) {
  need(x.dim() == 2 && x.is_contiguous() &&
           std::accumulate(widths.begin(), widths.end(), int64_t{0}) == x.size(1),
       "split_columns", "contiguous rows as wide as all parts together are needed");
  return backend(x).split_columns(x, widths);
}

}  // namespace trl::kernels
