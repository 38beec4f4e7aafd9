// Experts: gathers the tokens of each, computes three products for all of them at once, and adds the results
// back to their tokens.
#include "kernels/experts/experts.h"

#include "kernels/backend.h"
#include "kernels/experts/expert_terms.h"
#include "kernels/gemm/gemm.h"
#include "kernels/kept_outputs.h"
#include "kernels/op.h"
#include "kernels/weight/row_products.h"

namespace trl::kernels {

namespace {

// Each row of the groups gets the row of its token.
at::Tensor gathered(const at::Tensor& x, const Groups& groups) {
  const int64_t width = x.size(1);
  at::Tensor rows = tensor::empty({groups.rows(), width}, x.scalar_type(), MemoryKind::workspace);
  const auto bytes = static_cast<size_t>(width) * x.element_size();
  groups.each_row([&](int64_t row, int64_t assignment) {
    char* const to = at_byte(rows, row * width);
    if (assignment < 0)
      std::memset(to, 0, bytes);
    else
      std::memcpy(to, at_byte(x, assignment / groups.k * width), bytes);
  });
  return rows;
}

// y[t] = sum of share * row over the rows of t's assignments, in their order, in float32. shares: float32
// [tokens, k], or undefined: 1.
void combine(const at::Tensor& rows, const Groups& groups, const at::Tensor& shares, const at::Tensor& y) {
  const int64_t width = y.size(1);
  const float* const share = shares.defined() ? shares.data_ptr<float>() : nullptr;
  each_with_work(y.size(0), width, [&](int64_t token, float* sum) {
    std::memset(sum, 0, static_cast<size_t>(width) * sizeof(float));
    for (int64_t a = token * groups.k; a < (token + 1) * groups.k; ++a)
      cpu().add(sum, Type::f32, at_byte(rows, groups.place[static_cast<size_t>(a)] * width), type_of(rows),
                share != nullptr ? share[a] : 1.0f, sum, width);
    cpu().convert(sum, Type::f32, at_byte(y, token * width), type_of(y), width);
  });
}

// The matrix of one expert in `type`: in place if it has that type, else converted.
at::Tensor matrix_of_expert(const Parameter& w, const at::Tensor& values, int64_t expert,
                            at::ScalarType type) {
  if (w.encoded() == nullptr) return converted(values.select(0, expert), type, MemoryKind::workspace);
  at::Tensor matrix = tensor::empty({w.size(1), w.size(2)}, type, MemoryKind::workspace);
  const int64_t rows = w.size(1), width = w.size(2);
  tensor::parallel_for(rows, 16, [&](int64_t begin, int64_t end) {
    w.encoded()->decode({expert * rows + begin, end - begin, 0, width}, type, at_byte(matrix, begin * width),
                        width);
  });
  return matrix;
}

// The weight of a projection of all experts, and its copy, if that is read in its place.
struct Matrices {
  Parameter& w;
  const NarrowWeight* copy;
};

// The product of rows in place with an expert's matrix, which is stored in blocks or copied.
RowProduct product_with(const Matrices& m, int64_t expert, Skinny args) {
  const int64_t out = m.w.size(1), first = expert * out;
  if (m.copy == nullptr) return {args, m.w.encoded(), first, out};
  args.w = m.copy->row(first);
  if (m.copy->type() != NarrowType::bfloat16) return {args, nullptr, 0, out, m.copy};
  args.w_type = Type::bf16;
  return {args, nullptr, 0, out};
}

// c = rows of each group times its expert's matrix [out, in], which is read as it is stored or copied.
at::Tensor product_of_rows(const Groups& groups, const at::Tensor& rows, const Matrices& m, MemoryKind kind) {
  const Parameter& w = m.w;
  const int64_t out = w.size(1), in = w.size(2);
  at::Tensor c = tensor::empty({rows.size(0), out}, rows.scalar_type(), kind);
  std::vector<RowProduct> products;
  for (const Group& group : groups.groups) {
    Skinny args{};
    args.x = at_byte(rows, group.first * in);
    args.y = at_byte(c, group.first * out);
    args.rows = group.rows;
    args.k = args.x_stride = in;
    args.y_stride = out;
    args.x_type = args.y_type = type_of(rows);
    args.w_type = operand_type(w.encoded(), args.x_type);
    products.push_back(product_with(m, group.expert, args));
  }
  multiply_rows(std::move(products));
  return c;
}

// c = rows of each group times its expert's matrix [out, in]: transposed to out columns, or to in columns. If
// no copy of the weights is kept in the type of rows, a few experts at a time are converted.
at::Tensor product(const Groups& groups, const at::Tensor& rows, const Matrices& m, bool transposed,
                   MemoryKind kind) {
  Parameter& w = m.w;
  if (transposed && (m.copy != nullptr || (w.encoded() != nullptr && IndependentRows::active())))
    return product_of_rows(groups, rows, m, kind);
  const at::ScalarType compute = rows.scalar_type();
  const int64_t out = w.size(1), in = w.size(2), width = transposed ? out : in;
  at::Tensor c = tensor::empty({rows.size(0), width}, compute, kind);
  std::optional<tensor::Reading> reading;
  if (w.encoded() == nullptr) reading.emplace(w.read_either(compute, &convert));
  const at::Tensor values = reading ? **reading : at::Tensor();
  const size_t all = groups.groups.size();
  const size_t batch = values.defined() && values.scalar_type() == compute ? all : 8;
  for (size_t first = 0; first < all; first += batch) {
    std::vector<at::Tensor> matrices;
    std::vector<Multiplication> products;
    for (size_t g = first; g < std::min(first + batch, all); ++g) {
      const Group& group = groups.groups[g];
      matrices.push_back(matrix_of_expert(w, values, group.expert, compute));
      const Matrix matrix{matrices.back().data_ptr(), compute, transposed ? in : out, width, in, transposed};
      products.push_back(
          {matrix_of(rows, group, false), matrix, at_byte(c, group.first * width), compute, width});
    }
    gemm(products, all);
  }
  return c;
}

// gradient[expert] += dy^T x over the expert's rows.
void add_products(const Groups& groups, const at::Tensor& dy, const at::Tensor& x,
                  const at::Tensor& gradient) {
  std::vector<Multiplication> products;
  for (const Group& group : groups.groups) {
    products.push_back({matrix_of(dy, group, true), matrix_of(x, group, false),
                        at_byte(gradient, group.expert * gradient.stride(0)), gradient.scalar_type(),
                        gradient.size(2), 1.0f});
  }
  gemm(products);
}

// The experts' products with rows, plus their terms'.
at::Tensor adapted(const Groups& groups, const at::Tensor& rows, const Matrices& matrices,
                   const ExpertTerms& terms, MemoryKind kind) {
  at::Tensor y = product(groups, rows, matrices, true, kind);
  terms.add_to(groups, rows, y);
  return y;
}

struct Terms {
  ExpertTerms gate_up, down;
  explicit Terms(const ExpertWeights& weights)
      : gate_up(weights.gate_up_terms, weights.gate_up->size(0)),
        down(weights.down_terms, weights.down->size(0)) {}
};

struct Forward {
  at::Tensor y, gate_up;
};
// x already has the type of the products. y: without values if they will not be read.
Forward experts_forward(const at::Tensor& x, const at::Tensor& shares, const Groups& groups,
                        const ExpertWeights& weights, const Terms& terms, Activation kind, Wanted wanted) {
  Forward f;
  f.gate_up = made(Output::product, "experts", [&] {
    return tensor_list{adapted(groups, gathered(x, groups), {*weights.gate_up, weights.gate_up_copy},
                               terms.gate_up, MemoryKind::activations)};
  })[0];
  f.y = tensor::empty_like(x, MemoryKind::activations);
  if (wanted == Wanted::graph) return f;
  const at::Tensor act = gated_rows(kind, f.gate_up);
  const Matrices down{*weights.down, weights.down_copy};
  combine(adapted(groups, act, down, terms.down, MemoryKind::workspace), groups, shares, f.y);
  return f;
}

struct ExpertsState {
  ExpertWeights weights;
  tensor::Use gate_up, down;
  Terms terms;
  Activation kind;
  at::ScalarType x_type, compute;
};

// The gradients of the shares: products of each row of act with d_act = dy W. Then scales d_act and act by
// the share.
at::Tensor share_gradients(const Groups& groups, const at::Tensor& shares, const at::Tensor& d_act,
                           const at::Tensor& act) {
  const int64_t width = act.size(1);
  const at::Tensor gradients = tensor::empty(shares.sizes(), at::kFloat, MemoryKind::activations);
  groups.each_row([&](int64_t row, int64_t assignment) {
    if (assignment < 0) return;  // the row stays zero
    char *const d = at_byte(d_act, row * width), *const a = at_byte(act, row * width);
    gradients.data_ptr<float>()[assignment] = cpu().dot(d, a, type_of(act), width);
    const float share = shares.data_ptr<float>()[assignment];
    cpu().scale(d, type_of(act), share, d, type_of(act), width);
    cpu().scale(a, type_of(act), share, a, type_of(act), width);
  });
  return gradients;
}

struct Experts : torch::autograd::Function<Experts> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& shares,
                            const at::Tensor& chosen, const ExpertWeights& weights, Activation kind,
                            at::ScalarType compute, const Again& again, Wanted wanted) {
    const at::Tensor operand = converted(x, compute, MemoryKind::activations);
    const Groups groups(chosen, weights.gate_up->size(0));
    ExpertsState state{weights,
                       tensor::Use(*weights.gate_up),
                       tensor::Use(*weights.down),
                       Terms(weights),
                       kind,
                       x.scalar_type(),
                       compute};
    Forward f = experts_forward(operand, shares, groups, weights, state.terms, kind, wanted);
    const bool needs_x = state.gate_up || state.terms.gate_up.needs_input();
    if (needs_x && again) keep(context, "experts", again);
    keep(context, "experts", {shares, chosen, f.gate_up, needs_x && !again ? operand : at::Tensor()});
    keep(context, std::move(state));
    return f.y;
  }

  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    auto& state = kept<ExpertsState>(context);
    const tensor_list saved = kept(context);
    const at::Tensor &shares = saved[0], &gate_up = saved[2];
    const Groups groups(saved[1], state.weights.gate_up->size(0));
    const at::Tensor dy = grads[0].contiguous();
    at::Tensor d_shares, d_gate_up;
    {
      const at::Tensor d_rows = gathered(dy, groups);
      const at::Tensor d_act =
          product(groups, d_rows, {*state.weights.down, nullptr}, false, MemoryKind::workspace);
      const at::Tensor reduced = state.terms.down.add_input_gradient(groups, d_rows, d_act);
      const at::Tensor act = gated_rows(state.kind, gate_up);
      d_shares = share_gradients(groups, shares, d_act, act);
      state.down.add([&](at::Tensor& gradient) { add_products(groups, d_rows, act, gradient); });
      state.terms.down.add_gradients(groups, d_rows, reduced, act);
      state.down.end();
      state.terms.down.end();
      d_gate_up = gated_rows_backward(state.kind, d_act, gate_up);
    }
    const at::Tensor dx = tensor::empty(dy.sizes(), state.x_type, MemoryKind::activations);
    at::Tensor reduced;
    {
      const at::Tensor d_rows =
          product(groups, d_gate_up, {*state.weights.gate_up, nullptr}, false, MemoryKind::workspace);
      reduced = state.terms.gate_up.add_input_gradient(groups, d_gate_up, d_rows);
      combine(d_rows, groups, {}, dx);
    }
    if (state.gate_up || state.terms.gate_up.needs_input()) {
      const at::Tensor rows = gathered(operand(context, saved[3], state.compute), groups);
      state.gate_up.add([&](at::Tensor& gradient) { add_products(groups, d_gate_up, rows, gradient); });
      state.terms.gate_up.add_gradients(groups, d_gate_up, reduced, rows);
    }
    state.gate_up.end();
    state.terms.gate_up.end();
    return {dx, d_shares, {}, {}, {}, {}, {}, {}};
  }

 private:
  static at::Tensor operand(AutogradContext* context, const at::Tensor& saved, at::ScalarType compute) {
    return has_recipe(context) ? converted(made_again(context), compute, MemoryKind::activations) : saved;
  }
};

float sigmoid_of(const at::Tensor& gate, int64_t row) {
  float z;
  cpu().convert(at_byte(gate, row), type_of(gate), &z, Type::f32, 1);
  return 1.0f / (1.0f + std::exp(-z));
}

at::Tensor add_gated_forward(const at::Tensor& y, const at::Tensor& gate, const at::Tensor& branch) {
  at::Tensor sum = tensor::empty_like(y, MemoryKind::activations);
  const int64_t width = y.size(1);
  tensor::parallel_for(y.size(0), 16, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      cpu().add(at_byte(y, r * width), type_of(y), at_byte(branch, r * width), type_of(branch),
                sigmoid_of(gate, r), at_byte(sum, r * width), width);
  });
  return sum;
}

struct AddGated : torch::autograd::Function<AddGated> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& y, const at::Tensor& gate,
                            const at::Tensor& branch) {
    keep(context, "gate", {gate, branch});
    return add_gated_forward(y, gate, branch);
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const tensor_list saved = kept(context);
    const at::Tensor &gate = saved[0], &branch = saved[1], dy = grads[0].contiguous();
    const at::Tensor d_gate = tensor::empty_like(gate, MemoryKind::activations);
    const at::Tensor d_branch = tensor::empty_like(branch, MemoryKind::activations);
    const int64_t width = branch.size(1);
    tensor::parallel_for(dy.size(0), 16, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const float s = sigmoid_of(gate, r);
        const char* const d = at_byte(dy, r * width);
        cpu().scale(d, type_of(dy), s, at_byte(d_branch, r * width), type_of(branch), width);
        const float slope = cpu().dot(d, at_byte(branch, r * width), type_of(branch), width) * s * (1.0f - s);
        cpu().convert(&slope, Type::f32, at_byte(d_gate, r), type_of(gate), 1);
      }
    });
    return {dy, d_gate, d_branch};
  }
};

bool fits(const LowRank& factors, const Parameter& w) {
  if (factors.a == nullptr) return true;
  const int64_t rows = factors.a->size(0);
  return rows % w.size(0) == 0 && factors.a->size(1) == w.size(2) && factors.b->size(0) == w.size(1) &&
         factors.b->size(1) == rows && factors.bias == nullptr && factors.magnitude == nullptr &&
         factors.dropout.rate == 0;
}

bool fits(const at::Tensor& x, const Routing& routing, const ExpertWeights& weights) {
  const Parameter &gate_up = *weights.gate_up, &down = *weights.down;
  return x.dim() == 2 && x.is_contiguous() && gate_up.shape().size() == 3 && down.shape().size() == 3 &&
         gate_up.size(0) == down.size(0) && gate_up.size(1) == 2 * down.size(2) &&
         gate_up.size(2) == x.size(1) && down.size(1) == x.size(1) &&
         routing.weights.sizes() == routing.experts.sizes() && routing.experts.dim() == 2 &&
         routing.experts.size(0) == x.size(0) && routing.experts.is_contiguous() &&
         routing.weights.is_contiguous() && fits(weights.gate_up_terms, gate_up) &&
         fits(weights.down_terms, down);
}

}  // namespace

namespace fused_ops {

at::Tensor experts(const at::Tensor& x, const Routing& routing, const ExpertWeights& weights, Activation kind,
                   at::ScalarType compute, const Again& again, Wanted wanted) {
  if (records(x) || records(routing.weights))
    return Experts::apply(x, routing.weights, routing.experts, weights, kind, compute, again, wanted);
  const at::Tensor operand = converted(x, compute, MemoryKind::workspace);
  const Terms terms(weights);
  const Groups groups(routing.experts, weights.gate_up->size(0), !IndependentRows::active());
  return experts_forward(operand, routing.weights, groups, weights, terms, kind, wanted).y;
}

at::Tensor add_gated(const at::Tensor& y, const at::Tensor& gate, const at::Tensor& branch) {
  if (records(y) || records(gate) || records(branch)) return AddGated::apply(y, gate, branch);
  return add_gated_forward(y, gate, branch);
}

}  // namespace fused_ops

at::Tensor experts(const at::Tensor& x, const Routing& routing, const ExpertWeights& weights, Activation kind,
                   at::ScalarType compute, const Again& again, Wanted wanted) {
  need(fits(x, routing, weights), "experts",
       "x [tokens, hidden], k experts of each token, weights [experts, 2 * width, hidden] and [experts, "
       "hidden, width], and terms of these shapes are needed");
  return backend(x).experts(x, routing, weights, kind, compute, again, wanted);
}

at::Tensor add_gated(const at::Tensor& y, const at::Tensor& gate, const at::Tensor& branch) {
  need(y.dim() == 2 && y.sizes() == branch.sizes() && y.scalar_type() == branch.scalar_type() &&
           gate.numel() == y.size(0) && y.is_contiguous() && branch.is_contiguous() && gate.is_contiguous(),
       "add_gated", "contiguous y and branch [tokens, hidden] of one type and gate [tokens, 1] are needed");
  return backend(y).add_gated(y, gate, branch);
}

}  // namespace trl::kernels
