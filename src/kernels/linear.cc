// Linear layers and the embedding: the ops that own large weights. Gradients of weights go straight into
// Parameter::grad, in its type, by a product that accumulates.
#include <array>

#include "base/counter.h"
#include "kernels/gemm.h"
#include "kernels/op.h"
#include "kernels/plain.h"

namespace trl::kernels {

namespace {

using Projections = std::vector<Projection>;

// Rows of y start as the bias, so that product and bias are rounded together, once.
void fill_rows(at::Tensor& y, const at::Tensor& row) {
  const auto bytes = static_cast<size_t>(row.nbytes());
  tensor::parallel_for(y.size(0), 64, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) std::memcpy(at_byte(y, r * y.size(1)), row.data_ptr(), bytes);
  });
}

// x has type `compute` already
at::Tensor project(const at::Tensor& x, const Projection& p, at::ScalarType compute) {
  const at::Tensor& w = p.weight->value;
  at::Tensor y = tensor::empty({x.size(0), w.size(0)}, compute, MemoryKind::activations);
  if (p.bias == nullptr && x.size(0) <= kSkinnyRows && w.scalar_type() == compute) {
    skinny_product(x, w, y);
    return y;
  }
  if (p.bias != nullptr) fill_rows(y, converted(p.bias->value, compute, MemoryKind::workspace));
  gemm(x, false, converted(w, compute, MemoryKind::workspace), true, y, p.bias != nullptr ? 1.0f : 0.0f);
  return y;
}

struct LinearState {
  Projections projections;
  at::ScalarType x_type, compute;
};

// Nodes of a graph live until its end, what they saved only until their own backward; so the recipe goes
// then.
Again taken(AutogradContext* context) {
  const auto entry = context->saved_data.find("again");
  if (entry == context->saved_data.end()) return {};
  const auto capsule = entry->second.toCapsule();
  Again again = static_cast<const Capsule<Again>*>(capsule.get())->state;
  context->saved_data.erase("again");
  return again;
}

struct Linear : torch::autograd::Function<Linear> {
  static tensor_list forward(AutogradContext* context, const at::Tensor& x, const Projections& projections,
                             at::ScalarType compute, const Again& again) {
    const at::Tensor operand = converted(x, compute, MemoryKind::activations);
    tensor_list outputs;
    for (const Projection& p : projections) outputs.push_back(project(operand, p, compute));
    const bool trains = std::any_of(projections.begin(), projections.end(),
                                    [](const Projection& p) { return p.weight->trainable(); });
    if (trains && again) {
      context->saved_data["again"] = at::IValue::make_capsule(c10::make_intrusive<Capsule<Again>>(again));
    } else if (trains) {
      context->save_for_backward({operand});
    }
    keep(context, LinearState{projections, x.scalar_type(), compute});
    return outputs;
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const auto& state = kept<LinearState>(context);
    const auto saved = context->get_saved_variables();
    at::Tensor operand = saved.empty() ? at::Tensor() : saved[0];
    if (const Again again = taken(context)) {
      const at::NoGradGuard no_grad;
      operand = converted(again(), state.compute, MemoryKind::activations);
    }
    at::Tensor dx;
    for (size_t i = 0; i < state.projections.size(); ++i) {
      if (!grads[i].defined()) continue;
      const at::Tensor dy = grads[i].contiguous();
      const Projection& p = state.projections[i];
      const at::Tensor& w = p.weight->value;
      const float beta = dx.defined() ? 1.0f : 0.0f;
      if (!dx.defined()) dx = tensor::empty({dy.size(0), w.size(1)}, state.x_type, MemoryKind::activations);
      gemm(dy, false, converted(w, state.compute, MemoryKind::workspace), false, dx, beta);
      if (p.weight->trainable()) gemm(dy, true, operand, false, p.weight->grad, 1.0f);
      if (p.bias != nullptr && p.bias->trainable()) add_column_sums(dy, p.bias->grad);
    }
    return {dx, {}, {}, {}};
  }
};

void check(const at::Tensor& x, const Projection& p) {
  const at::Tensor& w = p.weight->value;
  need(x.dim() == 2 && w.dim() == 2 && x.size(1) == w.size(1) && x.is_contiguous() && w.is_contiguous() &&
           (p.bias == nullptr || p.bias->value.numel() == w.size(0)),
       "linear", "x [tokens, in], w [out, in], b [out] are needed");
  type_of(x);
  type_of(w);
}

at::Tensor gather_rows(const at::Tensor& ids, const at::Tensor& w) {
  at::Tensor y = tensor::empty({ids.size(0), w.size(1)}, w.scalar_type(), MemoryKind::activations);
  const auto bytes = static_cast<size_t>(w.size(1)) * w.element_size();
  const int32_t* const id = ids.data_ptr<int32_t>();
  tensor::parallel_for(ids.size(0), 64, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      std::memcpy(at_byte(y, t * w.size(1)), at_byte(w, id[t] * w.size(1)), bytes);
    }
  });
  return y;
}

// Columns are divided among the threads and tokens are added in their order, so that every sum has one order.
void scatter_add_rows(const at::Tensor& dy, const at::Tensor& ids, Parameter& w) {
  at::Tensor& grad = w.grad;
  const int64_t width = grad.size(1);
  const int32_t* const id = ids.data_ptr<int32_t>();
  constexpr int64_t kColumns = 64;
  tensor::parallel_for((width + kColumns - 1) / kColumns, 1, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kColumns;
    const int64_t count = std::min(end * kColumns, width) - first;
    for (int64_t t = 0; t < ids.size(0); ++t) {
      if (id[t] == w.padding_row) continue;
      void* const row = at_byte(grad, id[t] * width + first);
      cpu().add(row, type_of(grad), at_byte(dy, t * width + first), type_of(dy), row, count);
    }
  });
}

// x itself, with noise added in float32 and rounded once.
at::Tensor noisy(at::Tensor x, const Noise& noise) {
  if (noise.size == 0) return x;
  const int64_t width = x.size(1);
  const auto size = static_cast<float>(noise.size);
  tensor::parallel_for(x.size(0), 16, [&](int64_t begin, int64_t end) {
    std::array<float, 1024> piece;
    for (int64_t t = begin; t < end; ++t) {
      const base::CounterKey key = base::counter_key({noise.key, static_cast<uint64_t>(t)});
      for (int64_t first = 0; first < width; first += std::ssize(piece)) {
        const int64_t count = std::min(width - first, std::ssize(piece));
        char* const place = at_byte(x, t * width + first);
        cpu().convert(place, type_of(x), piece.data(), Type::f32, count);
        for (int64_t i = 0; i < count; ++i) {
          piece[static_cast<size_t>(i)] +=
              size * base::counter_uniform(key, static_cast<uint32_t>(first + i));
        }
        cpu().convert(piece.data(), Type::f32, place, type_of(x), count);
      }
    }
  });
  return x;
}

struct Embedding : torch::autograd::Function<Embedding> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor&, const at::Tensor& ids, Parameter* w,
                            const Noise& noise) {
    if (w->trainable()) context->save_for_backward({ids});
    keep(context, w);
    return noisy(gather_rows(ids, w->value), noise);
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    Parameter& w = *kept<Parameter*>(context);
    if (w.trainable()) scatter_add_rows(grads[0].contiguous(), context->get_saved_variables()[0], w);
    return {{}, {}, {}, {}};
  }
};

}  // namespace

void skinny_product(const at::Tensor& x, const at::Tensor& w, at::Tensor& y) {
  const tensor::Timed timed(tensor::Part::gemm);
  const Skinny args{x.data_ptr(), w.data_ptr(), y.data_ptr(), x.size(0),  x.size(1),
                    x.size(1),    y.size(1),    type_of(x),   type_of(w), type_of(y)};
  tensor::parallel_for((w.size(0) + 15) / 16, 4, [&](int64_t begin, int64_t end) {
    cpu().skinny(args, begin * 16, std::min(end * 16, w.size(0)));
  });
}

std::vector<at::Tensor> linear(const at::Tensor& x, at::ArrayRef<Projection> projections,
                               at::ScalarType compute, const Again& again) {
  for (const Projection& p : projections) check(x, p);
  if (!fused(x)) return plain::linear(x, projections, compute);
  if (records(x)) return Linear::apply(x, projections.vec(), compute, again);
  const at::Tensor operand = converted(x, compute, MemoryKind::workspace);
  std::vector<at::Tensor> outputs;
  for (const Projection& p : projections) outputs.push_back(project(operand, p, compute));
  return outputs;
}

at::Tensor linear(const at::Tensor& x, Parameter& w, Parameter* b, at::ScalarType compute,
                  const Again& again) {
  const Projection projection{&w, b};
  return linear(x, projection, compute, again)[0];
}

at::Tensor embedding(const at::Tensor& anchor, const at::Tensor& ids, Parameter& w, const Noise& noise) {
  need(ids.dim() == 1 && ids.scalar_type() == at::kInt && ids.is_contiguous() && w.value.dim() == 2,
       "embedding", "int32 ids [tokens] and a weight [vocab, hidden] are needed");
  const int32_t* const id = ids.data_ptr<int32_t>();
  for (int64_t t = 0; t < ids.size(0); ++t) {
    if (id[t] < 0 || id[t] >= w.value.size(0)) {
      fail(Status::invalid_argument, "token id {} at position {}: {} has rows 0 to {}", id[t], t, w.name,
           w.value.size(0) - 1);
    }
  }
  if (!fused(w.value)) return plain::embedding(anchor, ids, w, noise);
  if (records(anchor)) return Embedding::apply(anchor, ids, &w, noise);
  return noisy(gather_rows(ids, w.value), noise);
}

}  // namespace trl::kernels
