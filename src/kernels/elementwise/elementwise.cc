// Ops that are bound by memory: residual sum, activations with and without a gate, conversions.
#include "kernels/backend.h"
#include "kernels/op.h"

namespace trl::kernels {

void convert(const at::Tensor& from, const at::Tensor& to) {
  parallel_elements(from.numel(), [&](int64_t begin, int64_t end) {
    cpu().convert(at_byte(from, begin), type_of(from), at_byte(to, begin), type_of(to), end - begin);
  });
}

void add_to(const at::Tensor& from, const at::Tensor& to) {
  parallel_elements(from.numel(), [&](int64_t begin, int64_t end) {
    cpu().add(at_byte(to, begin), type_of(to), at_byte(from, begin), type_of(from), 1, at_byte(to, begin),
              end - begin);
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

at::Tensor branch_gradient(const at::Tensor& dy, at::ScalarType type, double scale) {
  if (scale == 1) return converted(dy, type, MemoryKind::activations);
  at::Tensor d = tensor::empty(dy.sizes(), type, MemoryKind::activations);
  parallel_elements(dy.numel(), [&](int64_t begin, int64_t end) {
    cpu().scale(at_byte(dy, begin), type_of(dy), static_cast<float>(scale), at_byte(d, begin), type_of(d),
                end - begin);
  });
  return d;
}

namespace {

at::Tensor add_forward(const at::Tensor& stream, const at::Tensor& branch, double scale) {
  at::Tensor sum = tensor::empty_like(stream, MemoryKind::activations);
  parallel_elements(sum.numel(), [&](int64_t begin, int64_t end) {
    cpu().add(at_byte(stream, begin), type_of(stream), at_byte(branch, begin), type_of(branch),
              static_cast<float>(scale), at_byte(sum, begin), end - begin);
  });
  return sum;
}

struct AddState {
  at::ScalarType branch;
  double scale;
};
struct Add : torch::autograd::Function<Add> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& stream, const at::Tensor& branch,
                            double scale) {
    keep(context, AddState{branch.scalar_type(), scale});
    return add_forward(stream, branch, scale);
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const at::Tensor dy = grads[0].contiguous();
    const auto& state = kept<AddState>(context);
    return {dy, branch_gradient(dy, state.branch, state.scale), {}};
  }
};

// Starts a graph at x: the anchor carries the graph.
struct Recorded : torch::autograd::Function<Recorded> {
  static at::Tensor forward(AutogradContext*, const at::Tensor& /*anchor*/, const at::Tensor& x) {
    return x.detach();
  }
  static tensor_list backward(AutogradContext*, const tensor_list&) { return {{}, {}}; }
};

at::Tensor activate_forward(Activation kind, const at::Tensor& x) {
  at::Tensor y = tensor::empty_like(x, MemoryKind::activations);
  parallel_elements(y.numel(), [&](int64_t begin, int64_t end) {
    cpu().activation_forward(kind, at_byte(x, begin), at_byte(y, begin), type_of(x), end - begin);
  });
  return y;
}

struct Activate : torch::autograd::Function<Activate> {
  static at::Tensor forward(AutogradContext* context, Activation kind, const at::Tensor& x) {
    keep(context, "activation", {x});
    keep(context, kind);
    return activate_forward(kind, x);
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const at::Tensor x = kept(context)[0], dy = grads[0].contiguous();
    at::Tensor dx = tensor::empty_like(x, MemoryKind::activations);
    parallel_elements(x.numel(), [&](int64_t begin, int64_t end) {
      cpu().activation_backward(kept<Activation>(context), at_byte(dy, begin), at_byte(x, begin),
                                at_byte(dx, begin), type_of(x), end - begin);
    });
    return {{}, dx};
  }
};

at::Tensor gated_forward(Activation kind, const at::Tensor& gate, const at::Tensor& up) {
  at::Tensor y = tensor::empty_like(gate, MemoryKind::activations);
  parallel_elements(y.numel(), [&](int64_t begin, int64_t end) {
    cpu().gated_forward(kind, at_byte(gate, begin), at_byte(up, begin), at_byte(y, begin), type_of(gate),
                        end - begin);
  });
  return y;
}

struct Gated : torch::autograd::Function<Gated> {
  static at::Tensor forward(AutogradContext* context, Activation kind, const at::Tensor& gate,
                            const at::Tensor& up) {
    keep(context, "gate", {gate, up});
    keep(context, kind);
    return gated_forward(kind, gate, up);
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const tensor_list saved = kept(context);
    const at::Tensor &gate = saved[0], &up = saved[1];
    const at::Tensor dy = grads[0].contiguous();
    at::Tensor d_gate = tensor::empty_like(gate, MemoryKind::activations);
    at::Tensor d_up = tensor::empty_like(up, MemoryKind::activations);
    parallel_elements(dy.numel(), [&](int64_t begin, int64_t end) {
      cpu().gated_backward(kept<Activation>(context), at_byte(dy, begin), at_byte(gate, begin),
                           at_byte(up, begin), at_byte(d_gate, begin), at_byte(d_up, begin), type_of(gate),
                           end - begin);
    });
    return {{}, d_gate, d_up};
  }
};

struct GatedRows : torch::autograd::Function<GatedRows> {
  static at::Tensor forward(AutogradContext* context, Activation kind, const at::Tensor& gate_up) {
    keep(context, "gate", {gate_up});
    keep(context, kind);
    return gated_rows(kind, gate_up);
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const at::Tensor gate_up = kept(context)[0];
    return {{}, gated_rows_backward(kept<Activation>(context), grads[0].contiguous(), gate_up)};
  }
};

}  // namespace

at::Tensor gated_rows(Activation kind, const at::Tensor& gate_up) {
  const int64_t width = gate_up.size(1) / 2;
  at::Tensor y = tensor::empty({gate_up.size(0), width}, gate_up.scalar_type(), MemoryKind::activations);
  tensor::parallel_for(y.size(0), 16, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      cpu().gated_forward(kind, at_byte(gate_up, 2 * r * width), at_byte(gate_up, (2 * r + 1) * width),
                          at_byte(y, r * width), type_of(y), width);
  });
  return y;
}

at::Tensor gated_rows_backward(Activation kind, const at::Tensor& dy, const at::Tensor& gate_up) {
  const int64_t width = dy.size(1);
  at::Tensor d = tensor::empty_like(gate_up, MemoryKind::activations);
  tensor::parallel_for(dy.size(0), 16, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t gate = 2 * r * width, up = gate + width;
      cpu().gated_backward(kind, at_byte(dy, r * width), at_byte(gate_up, gate), at_byte(gate_up, up),
                           at_byte(d, gate), at_byte(d, up), type_of(dy), width);
    }
  });
  return d;
}

at::Tensor recorded(const at::Tensor& x) {
  if (!at::GradMode::is_enabled()) return x;
  return Recorded::apply(graph_start(), x.detach());
}

namespace fused_ops {

at::Tensor add(const at::Tensor& stream, const at::Tensor& branch, double branch_scale) {
  if (!records(stream) && !records(branch)) return add_forward(stream, branch, branch_scale);
  return Add::apply(stream, branch, branch_scale);
}

at::Tensor activate(Activation kind, const at::Tensor& x) {
  return records(x) ? Activate::apply(kind, x) : activate_forward(kind, x);
}

at::Tensor gated(Activation kind, const at::Tensor& gate, const at::Tensor& up) {
  return records(gate) || records(up) ? Gated::apply(kind, gate, up) : gated_forward(kind, gate, up);
}

at::Tensor gated_halves(Activation kind, const at::Tensor& gate_up) {
  return records(gate_up) ? GatedRows::apply(kind, gate_up) : gated_rows(kind, gate_up);
}

}  // namespace fused_ops

at::Tensor add(const at::Tensor& stream, const at::Tensor& branch, double branch_scale) {
  need(stream.sizes() == branch.sizes() && stream.is_contiguous() && branch.is_contiguous(), "add",
       "contiguous tensors of one shape are needed");
  return backend(stream).add(stream, branch, branch_scale);
}

at::Tensor activate(Activation kind, const at::Tensor& x) {
  need(x.is_contiguous(), "activate", "a contiguous tensor is needed");
  return backend(x).activate(kind, x);
}

at::Tensor gated(Activation kind, const at::Tensor& gate, const at::Tensor& up) {
  need(gate.sizes() == up.sizes() && gate.scalar_type() == up.scalar_type() && gate.is_contiguous() &&
           up.is_contiguous(),
       "gated", "contiguous tensors of one shape and type are needed");
  return backend(gate).gated(kind, gate, up);
}

at::Tensor gated(Activation kind, const at::Tensor& gate_up) {
  need(gate_up.dim() == 2 && gate_up.size(1) % 2 == 0 && gate_up.is_contiguous(), "gated",
       "contiguous rows of an even width are needed");
  return backend(gate_up).gated_halves(kind, gate_up);
}

}  // namespace trl::kernels
