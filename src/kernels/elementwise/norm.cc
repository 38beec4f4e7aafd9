// Norms, with or without the residual sum before them. They keep x, and a float or two per row.
#include "kernels/backend.h"
#include "kernels/op.h"

namespace trl::kernels {

namespace {

int64_t rows_of(const at::Tensor& x) { return x.numel() / x.size(-1); }

void* data_or_null(const at::Tensor& x) { return x.defined() ? x.data_ptr() : nullptr; }
float* floats_or_null(const at::Tensor& x) { return static_cast<float*>(data_or_null(x)); }

// Statistics of each row; undefined if nothing is kept, or if the kind has none.
struct Statistics {
  at::Tensor rstd, mean;

  Statistics() = default;
  Statistics(const at::Tensor& x, NormKind kind) {
    const auto row_values = [&] { return tensor::empty({rows_of(x)}, at::kFloat, MemoryKind::activations); };
    rstd = row_values();
    if (kind == NormKind::layer) mean = row_values();
  }
};

struct NormValues {
  std::vector<tensor::Reading> readings;
  at::Tensor weight, bias;  // [width] or [n, width]; bias: may be undefined
  explicit NormValues(const Norm& norm) {
    const auto read = [&](Parameter& w) { return *readings.emplace_back(w.read()); };
    weight = read(*norm.weight);
    if (norm.bias != nullptr) bias = read(*norm.bias);
    if (norm.more.empty()) return;
    std::vector<at::Tensor> rows{weight};
    for (Parameter* const w : norm.more) rows.push_back(read(*w));
    at::Tensor all =
        tensor::empty({std::ssize(rows), weight.size(0)}, weight.scalar_type(), MemoryKind::workspace);
    weight = at::stack_out(all, rows);
  }
};

// branch: may be undefined; then the stream of the result is x itself.
Residual norm_forward(const at::Tensor& x, const at::Tensor& branch, const Norm& norm, double branch_scale,
                      const Statistics& statistics) {
  const NormValues values(norm);
  at::Tensor y = tensor::empty_like(x, MemoryKind::activations), sum;
  if (branch.defined()) sum = tensor::empty_like(x, MemoryKind::activations);
  NormForward args{};
  args.x = x.data_ptr();
  args.branch = data_or_null(branch);
  args.w = values.weight.data_ptr();
  args.bias = data_or_null(values.bias);
  args.sum = data_or_null(sum);
  args.y = y.data_ptr();
  args.rstd = floats_or_null(statistics.rstd);
  args.mean = floats_or_null(statistics.mean);
  args.width = x.size(-1);
  args.groups = values.weight.numel() / args.width;
  args.eps = static_cast<float>(norm.eps);
  args.branch_scale = static_cast<float>(branch_scale);
  args.kind = norm.kind;
  args.x_type = type_of(x);
  args.branch_type = branch.defined() ? type_of(branch) : args.x_type;
  args.w_type = type_of(values.weight);
  tensor::parallel_for(rows_of(x), 16,
                       [&](int64_t begin, int64_t end) { cpu().norm_forward(args, begin, end); });
  return {sum.defined() ? sum : x, y};
}

// Gradients of weight and bias are summed in pieces of rows whose borders only depend on the shape, then over
// the pieces in order.
class PieceSums {
 public:
  // count: number of values of each parameter that is used; they all have the same.
  PieceSums(int64_t count, const std::vector<tensor::Use>& uses, int64_t pieces) : uses_(uses) {
    const bool any = std::ranges::any_of(uses, [](const tensor::Use& use) { return bool(use); });
    if (any) sums_ = tensor::zeros({pieces, count}, at::kFloat, MemoryKind::workspace);
  }
  float* piece(int64_t p) const {
    return sums_.defined() ? sums_.data_ptr<float>() + p * sums_.size(1) : nullptr;
  }
  void add() const {
    for (size_t i = 0; i < uses_.size(); ++i)
      uses_[i].add([&](at::Tensor& gradient) { add_column_sums(columns_of(i), gradient); });
  }

 private:
  at::Tensor columns_of(size_t i) const {
    if (uses_.size() == 1) return sums_;
    const int64_t width = sums_.size(1) / std::ssize(uses_);
    const at::Tensor own = tensor::empty({sums_.size(0), width}, at::kFloat, MemoryKind::workspace);
    return own.copy_(sums_.narrow(1, static_cast<int64_t>(i) * width, width));
  }

  const std::vector<tensor::Use>& uses_;
  at::Tensor sums_;
};

// A graph node's use of a norm.
struct NormState {
  Norm norm;
  std::vector<tensor::Use> weights, biases;
  double branch_scale = 1;
  std::optional<at::ScalarType> branch = {};  // the branch's type

  explicit NormState(const Norm& of) : norm(of) {
    weights.emplace_back(*of.weight);
    for (const Parameter* const w : of.more) weights.emplace_back(*w);
    if (of.bias != nullptr) biases.emplace_back(*of.bias);
  }
  void end() {
    for (tensor::Use& use : weights) use.end();
    for (tensor::Use& use : biases) use.end();
  }
};

// d_sum: the gradient that reaches x on other paths, or undefined.
at::Tensor norm_backward(const at::Tensor& dy, const at::Tensor& d_sum, const at::Tensor& x,
                         const Statistics& statistics, NormState& state) {
  const NormValues values(state.norm);
  const at::Tensor& w = values.weight;
  const int64_t rows = rows_of(x);
  const int64_t piece = std::max<int64_t>(32, (rows + 63) / 64);
  const int64_t pieces = (rows + piece - 1) / piece;
  at::Tensor dx = tensor::empty_like(x, MemoryKind::activations);
  const PieceSums dw(w.numel(), state.weights, pieces), d_bias(w.numel(), state.biases, pieces);
  NormBackward all{};
  all.dy = dy.data_ptr();
  all.d_sum = data_or_null(d_sum);
  all.x = x.data_ptr();
  all.w = w.data_ptr();
  all.rstd = statistics.rstd.data_ptr<float>();
  all.mean = floats_or_null(statistics.mean);
  all.dx = dx.data_ptr();
  all.width = x.size(-1);
  all.groups = w.numel() / all.width;
  all.kind = state.norm.kind;
  all.x_type = type_of(x);
  all.w_type = type_of(w);
  tensor::parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      NormBackward args = all;
      args.dw = dw.piece(p);
      args.d_bias = d_bias.piece(p);
      cpu().norm_backward(args, p * piece, std::min(rows, (p + 1) * piece));
    }
  });
  dw.add();
  d_bias.add();
  state.end();
  return dx;
}

void save(AutogradContext* context, const at::Tensor& x, const Statistics& statistics, NormState state) {
  keep(context, "norm", {x, statistics.rstd, statistics.mean});
  keep(context, std::move(state));
}
Statistics saved_statistics(const tensor_list& saved) {
  Statistics statistics;
  statistics.rstd = saved[1];
  statistics.mean = saved[2];
  return statistics;
}

struct NormNode : torch::autograd::Function<NormNode> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const Norm& norm) {
    const Statistics statistics(x, norm.kind);
    at::Tensor y = norm_forward(x, {}, norm, 1, statistics).normed;
    save(context, x, statistics, NormState(norm));
    return y;
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    const tensor_list saved = kept(context);
    auto& state = kept<NormState>(context);
    return {norm_backward(grads[0].contiguous(), {}, saved[0], saved_statistics(saved), state), {}};
  }
};

// Its backward adds the gradient of the stream and the one through the norm, in one pass: the results are the
// gradient of the stream before and, scaled and in its type, of the branch.
struct ResidualNorm : torch::autograd::Function<ResidualNorm> {
  static tensor_list forward(AutogradContext* context, const at::Tensor& x,
                             const c10::optional<at::Tensor>& branch, const Norm& norm, double branch_scale) {
    const Statistics statistics(x, norm.kind);
    const Residual result = norm_forward(x, branch.value_or(at::Tensor()), norm, branch_scale, statistics);
    const at::Tensor stream = branch ? result.stream : x.detach();
    NormState state(norm);
    state.branch_scale = branch_scale;
    if (branch) state.branch = branch->scalar_type();
    save(context, stream, statistics, std::move(state));
    return {stream, result.normed};
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    auto& state = kept<NormState>(context);
    const tensor_list saved = kept(context);
    at::Tensor dx = grads[0].defined() ? grads[0].contiguous() : at::Tensor();
    if (grads[1].defined())
      dx = norm_backward(grads[1].contiguous(), dx, saved[0], saved_statistics(saved), state);
    state.end();
    at::Tensor d_branch;
    if (state.branch) d_branch = branch_gradient(dx, *state.branch, state.branch_scale);
    return {dx, d_branch, {}, {}};
  }
};

bool rows_fit(const at::Tensor& x, const Norm& norm) {
  const Parameter& w = *norm.weight;
  if (x.dim() < 1 || x.size(-1) == 0 || !x.is_contiguous()) return false;
  if (w.shape().empty() || w.shape().back() != x.size(-1)) return false;
  const auto another = [&](const Parameter* p) {
    return p->shape() == w.shape() && p->dtype() == w.dtype() && w.shape().size() == 1;
  };
  if (!std::ranges::all_of(norm.more, another)) return false;
  if (rows_of(x) % (w.count() / x.size(-1) * (1 + std::ssize(norm.more))) != 0) return false;
  if (!norm.more.empty() && norm.bias != nullptr) return false;
  return norm.bias == nullptr ||
         (norm.kind == NormKind::layer && norm.bias->shape() == w.shape() && norm.bias->dtype() == w.dtype());
}

}  // namespace

namespace fused_ops {

at::Tensor norm(const at::Tensor& x, const Norm& norm) {
  return records(x) ? NormNode::apply(x, norm) : norm_forward(x, {}, norm, 1, {}).normed;
}

Residual residual_norm(const at::Tensor& stream, const at::Tensor& branch, const Norm& norm,
                       double branch_scale) {
  if (!records(stream) && !(branch.defined() && records(branch)))
    return norm_forward(stream, branch, norm, branch_scale, {});
  const auto given = branch.defined() ? c10::optional<at::Tensor>(branch) : c10::nullopt;
  const tensor_list outputs = ResidualNorm::apply(stream, given, norm, branch_scale);
  return {outputs[0], outputs[1]};
}

}  // namespace fused_ops

at::Tensor norm(const at::Tensor& x, const Norm& norm) {
  need(rows_fit(x, norm), "norm",
       "contiguous rows as wide as the weight, and a bias of its shape are needed");
  return backend(x).norm(x, norm);
}

Residual residual_norm(const at::Tensor& stream, const at::Tensor& branch, const Norm& norm,
                       double branch_scale) {
  need(rows_fit(stream, norm) &&
           (!branch.defined() || (branch.sizes() == stream.sizes() && branch.is_contiguous())),
       "residual_norm",
       "contiguous rows as wide as the weight, and a branch of the stream's shape are needed");
  return backend(stream).residual_norm(stream, branch, norm, branch_scale);
}

}  // namespace trl::kernels
