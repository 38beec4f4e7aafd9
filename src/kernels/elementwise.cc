// Ops that are bound by memory: residual sum, gated activation, conversions.
#include "kernels/op.h"
#include "kernels/plain.h"

namespace trl::kernels {

void convert(const at::Tensor& from, const at::Tensor& to) {
  parallel_elements(from.numel(), [&](int64_t begin, int64_t end) {
    cpu().convert(at_byte(from, begin), type_of(from), at_byte(to, begin), type_of(to), end - begin);
  });
}

at::Tensor converted(const at::Tensor& x, at::ScalarType type, MemoryKind kind) {
  if (x.scalar_type() == type) return x;
  const at::Tensor copy = tensor::empty(x.sizes(), type, kind);
  convert(x, copy);
  return copy;
}

void add_column_sums(const at::Tensor& x, at::Tensor& sum) {
  const int64_t width = x.size(-1);
  const int64_t rows = width > 0 ? x.numel() / width : 0;
  constexpr int64_t kColumns = 64;
  tensor::parallel_for((width + kColumns - 1) / kColumns, 1, [&](int64_t begin, int64_t end) {
    cpu().column_sum(x.data_ptr(), type_of(x), rows, width, sum.data_ptr(), type_of(sum), begin * kColumns,
                     std::min(end * kColumns, width));
  });
}

namespace {

at::Tensor add_forward(const at::Tensor& stream, const at::Tensor& branch) {
  at::Tensor sum = tensor::empty_like(stream, MemoryKind::activations);
  parallel_elements(sum.numel(), [&](int64_t begin, int64_t end) {
    cpu().add(at_byte(stream, begin), type_of(stream), at_byte(branch, begin), type_of(branch),
              at_byte(sum, begin), end - begin);
  });
  return sum;
}

struct Add : torch::autograd::Function<Add> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& stream, const at::Tensor& branch) {
    keep(context, branch.scalar_type());
    return add_forward(stream, branch);
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const at::Tensor dy = grads[0].contiguous();
    return {dy, converted(dy, kept<at::ScalarType>(context), MemoryKind::activations)};
  }
};

at::Tensor gated_forward(Gate kind, const at::Tensor& gate, const at::Tensor& up) {
  at::Tensor y = tensor::empty_like(gate, MemoryKind::activations);
  parallel_elements(y.numel(), [&](int64_t begin, int64_t end) {
    cpu().gated_forward(kind, at_byte(gate, begin), at_byte(up, begin), at_byte(y, begin), type_of(gate),
                        end - begin);
  });
  return y;
}

struct Gated : torch::autograd::Function<Gated> {
  static at::Tensor forward(AutogradContext* context, Gate kind, const at::Tensor& gate,
                            const at::Tensor& up) {
    context->save_for_backward({gate, up});
    keep(context, kind);
    return gated_forward(kind, gate, up);
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &gate = saved[0], &up = saved[1];
    const at::Tensor dy = grads[0].contiguous();
    at::Tensor d_gate = tensor::empty_like(gate, MemoryKind::activations);
    at::Tensor d_up = tensor::empty_like(up, MemoryKind::activations);
    parallel_elements(dy.numel(), [&](int64_t begin, int64_t end) {
      cpu().gated_backward(kept<Gate>(context), at_byte(dy, begin), at_byte(gate, begin), at_byte(up, begin),
                           at_byte(d_gate, begin), at_byte(d_up, begin), type_of(gate), end - begin);
    });
    return {{}, d_gate, d_up};
  }
};

at::Tensor gated(Gate kind, const char* op, const at::Tensor& gate, const at::Tensor& up) {
  need(gate.sizes() == up.sizes() && gate.scalar_type() == up.scalar_type() && gate.is_contiguous() &&
           up.is_contiguous(),
       op, "contiguous tensors of one shape and type are needed");
  if (!fused(gate)) return plain::gated(kind, gate, up);
  return records(gate) || records(up) ? Gated::apply(kind, gate, up) : gated_forward(kind, gate, up);
}

}  // namespace

at::Tensor add(const at::Tensor& stream, const at::Tensor& branch) {
  need(stream.sizes() == branch.sizes() && stream.is_contiguous() && branch.is_contiguous(), "add",
       "contiguous tensors of one shape are needed");
  if (!fused(stream)) return plain::add(stream, branch);
  return records(stream) || records(branch) ? Add::apply(stream, branch) : add_forward(stream, branch);
}

at::Tensor swiglu(const at::Tensor& gate, const at::Tensor& up) {
  return gated(Gate::silu, "swiglu", gate, up);
}

at::Tensor geglu(const at::Tensor& gate, const at::Tensor& up, bool tanh) {
  return gated(tanh ? Gate::gelu_tanh : Gate::gelu, "geglu", gate, up);
}

}  // namespace trl::kernels
