// Dropout as an op. It is its own gradient: the same elements are left out of the incoming gradient.
#include "kernels/backend.h"
#include "kernels/op.h"

namespace trl::kernels {

namespace {

constexpr int64_t kWord = 16;  // elements in a word of bits

uint16_t* words_of(const at::Tensor& words) { return static_cast<uint16_t*>(words.data_ptr()); }

void write_kept(const at::Tensor& x, const Dropout& dropout, const at::Tensor& words, bool add,
                const at::Tensor& y) {
  const int64_t width = x.size(-1);
  const float scale = drop_of(dropout).scale;
  tensor::parallel_for(words.size(0), 16, [&](int64_t begin, int64_t end) {
    cpu().add_kept(words_of(words), scale, x.data_ptr(), type_of(x), add, y.data_ptr(), type_of(y), width,
                   begin, end);
  });
}

}  // namespace

at::Tensor dropped(const at::Tensor& x, const Dropout& dropout, at::Tensor* words) {
  const int64_t width = x.size(-1), rows = width > 0 ? x.numel() / width : 0;
  const Drop drop = drop_of(dropout);
  at::Tensor y = tensor::empty_like(x, MemoryKind::activations);
  if (words != nullptr)
    *words = tensor::empty({rows, (width + kWord - 1) / kWord}, at::kShort, MemoryKind::activations);
  tensor::parallel_for(rows, 16, [&](int64_t begin, int64_t end) {
    cpu().dropout(drop, x.data_ptr(), y.data_ptr(), type_of(x), width, begin, end,
                  words != nullptr ? words_of(*words) : nullptr);
  });
  return y;
}

at::Tensor dropped(const at::Tensor& x, const Dropout& dropout, const at::Tensor& words) {
  at::Tensor y = tensor::empty_like(x, MemoryKind::activations);
  write_kept(x, dropout, words, false, y);
  return y;
}

void add_dropped(const at::Tensor& x, const Dropout& dropout, const at::Tensor& words, at::Tensor& y) {
  write_kept(x, dropout, words, true, y);
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

namespace fused_ops {

at::Tensor dropout(const at::Tensor& x, const Dropout& dropout) {
  return records(x) ? DropoutNode::apply(x, dropout) : dropped(x, dropout);
}

}  // namespace fused_ops

at::Tensor dropout(const at::Tensor& x, const Dropout& dropout) {
  need(x.dim() > 0 && x.is_contiguous(), "dropout", "contiguous rows are needed");
  check_rate(dropout);
  if (dropout.rate == 0) return x;
  return backend(x).dropout(x, dropout);
}

}  // namespace trl::kernels
