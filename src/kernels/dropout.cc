// Dropout as an op. It is its own gradient: the same elements are left out of what comes back.
#include "kernels/op.h"
#include "kernels/plain.h"

namespace trl::kernels {

at::Tensor dropped(const at::Tensor& x, const Dropout& dropout) {
  const int64_t width = x.size(-1);
  const Drop drop = drop_of(dropout);
  at::Tensor y = tensor::empty_like(x, MemoryKind::activations);
  tensor::parallel_for(width > 0 ? x.numel() / width : 0, 16, [&](int64_t begin, int64_t end) {
    cpu().dropout(drop, x.data_ptr(), y.data_ptr(), type_of(x), width, begin, end);
  });
  return y;
}

namespace {

struct DropoutNode : torch::autograd::Function<DropoutNode> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const Dropout& dropout) {
    keep(context, dropout);
    return dropped(x, dropout);
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    return {dropped(grads[0].contiguous(), kept<Dropout>(context)), {}};
  }
};

}  // namespace

at::Tensor dropout(const at::Tensor& x, const Dropout& dropout) {
  need(x.dim() > 0 && x.is_contiguous(), "dropout", "contiguous rows are needed");
  check_rate(dropout);
  if (dropout.rate == 0) return x;
  if (!fused(x)) return plain::dropout(x, dropout);
  return records(x) ? DropoutNode::apply(x, dropout) : dropped(x, dropout);
}

}  // namespace trl::kernels
