// The head from whole logits and their log-softmax in float32, a tile of rows at a time. Values of the size
// of a tile are changed in place if possible: new memory of that size costs more than the arithmetic.
#include "kernels/gemm/gemm.h"
#include "kernels/head/head_rows.h"
#include "kernels/op.h"
#include "kernels/plain.h"

namespace trl::kernels::plain {

namespace {

constexpr int64_t kTileBytes = int64_t{64} << 20;  // bytes of a tile's logits, in float32

// op(a) op(b), op as in gemm(), with the sums of bfloat16 products in float32. ATen rounds them to bfloat16,
// and on the CPU is several times slower.
at::Tensor wide_product(const at::Tensor& a, bool a_transposed, const at::Tensor& b, bool b_transposed) {
  const at::Tensor left = a_transposed ? a.t() : a, right = b_transposed ? b.t() : b;
  if (a.scalar_type() != at::kBFloat16 || !a.is_cpu()) return left.mm(right).to(wide_type(a));
  at::Tensor product = at::empty({left.size(0), right.size(1)}, a.options().dtype(at::kFloat));
  gemm(a, a_transposed, b, b_transposed, product);
  return product;
}

// Scales and caps the products, in place.
at::Tensor finished(at::Tensor products, const HeadOptions& options) {
  if (options.scale != 1) products.mul_(options.scale);
  if (options.softcap > 0) products.div_(options.softcap).tanh_().mul_(options.softcap);
  return products;
}

at::Tensor ids_of(const OwnRows& own, at::Device device) {
  return at::tensor(at::IntArrayRef(own.ids), at::kLong).to(device);
}

at::Tensor table_of(Parameter& head, const HeadOptions& options) {
  const at::Tensor table = head.read()->detach();
  const OwnRows* const own = own_rows(options);
  if (own == nullptr) return table;
  return table.index_copy(0, ids_of(*own, table.device()), own->rows->read()->to(table.scalar_type()));
}

// Some targets and their rows: each row once, and the index among these of each target's row. int64, on the
// device of hidden.
struct TileTargets {
  at::Tensor row, place, token;
};
TileTargets targets_of(const HeadTargets& all, int64_t first, int64_t end, at::Device device) {
  std::vector<int64_t> row, place, token;
  for (int64_t i = first; i < end; ++i) {
    const auto at = static_cast<size_t>(i);
    if (row.empty() || row.back() != all.rows[at]) row.push_back(all.rows[at]);
    place.push_back(std::ssize(row) - 1);
    token.push_back(all.tokens[at]);
  }
  const auto on_device = [&](const std::vector<int64_t>& x) { return at::tensor(x, at::kLong).to(device); };
  return {on_device(row), on_device(place), on_device(token)};
}

// double [the six of TokenValues, targets], on the host. p: the exponentials of log_p, whose memory is
// overwritten.
at::Tensor values_of(const at::Tensor& logits, at::Tensor& log_p, const at::Tensor& p, const TileTargets& t) {
  const auto of_row = [&](const at::Tensor& x) { return x.index_select(0, t.place).to(at::kDouble); };
  const at::Tensor best = logits.argmax(-1);
  const at::Tensor log_prob = log_p.index({t.place, t.token}).to(at::kDouble), mean = log_p.mean(-1),
                   entropy = log_p.mul_(p).sum(-1).neg(), squares = at::mul_out(log_p, p, p).sum(-1);
  return at::stack({log_prob, of_row(mean), of_row(entropy), of_row(logits.mean(-1)), of_row(squares.log()),
                    best.index_select(0, t.place).eq(t.token).to(at::kDouble)})
      .cpu();
}

std::vector<TokenValues> list_of(const at::Tensor& values) {
  const auto value = values.accessor<double, 2>();
  std::vector<TokenValues> list;
  for (int64_t i = 0; i < values.size(1); ++i)
    list.push_back({value[0][i], value[1][i], value[2][i], value[3][i], value[4][i], value[5][i] != 0});
  return list;
}

class Sweep {
 public:
  // d_hidden: zero; d_head, d_own: added to. Undefined: that gradient is not wanted. loss: null: values only.
  Sweep(const at::Tensor& hidden, Parameter& head, const HeadTargets& targets, const TokenLoss* loss,
        const HeadOptions& options, at::Tensor d_hidden = {}, at::Tensor d_head = {}, at::Tensor d_own = {})
      : hidden_(hidden),
        table_(table_of(head, options).to(options.compute)),
        targets_(targets),
        loss_(loss),
        options_(options),
        d_hidden_(std::move(d_hidden)),
        d_head_(std::move(d_head)),
        d_own_(std::move(d_own)) {
    if (own_rows(options) != nullptr) ids_ = ids_of(*options.own_rows, hidden.device());
  }

  double run(std::vector<TokenValues>* values) {
    const int64_t fitting = std::max<int64_t>(1, kTileBytes / (4 * table_.size(0)));
    const int64_t rows = options_.tile_rows > 0 ? options_.tile_rows : fitting;
    if (d_head_.defined()) d_weight_ = d_head_;
    if (d_head_.defined() && rows < targets_.size()) d_weight_ = d_head_.to(wide_type(d_head_));
    if (values != nullptr) values->clear();
    for (int64_t first = 0, end = 0; first < targets_.size(); first = end) {
      base::poll();
      end = end_of(first, rows);
      run_tile(targets_of(targets_, first, end, hidden_.device()), first, values);
    }
    if (d_head_.defined() && !d_weight_.is_same(d_head_)) d_head_.copy_(d_weight_);
    return sum_;
  }

 private:
  // The end of the targets of that many rows.
  int64_t end_of(int64_t first, int64_t rows) const {
    int64_t end = first, count = 0;
    for (; end < targets_.size(); ++end) {
      const auto at = static_cast<size_t>(end);
      count += end == first || targets_.rows[at] != targets_.rows[at - 1] ? 1 : 0;
      if (count > rows) break;
    }
    return end;
  }

  void run_tile(const TileTargets& tile, int64_t first, std::vector<TokenValues>* values) {
    const at::Tensor x = hidden_.detach().index_select(0, tile.row).to(options_.compute);
    const at::Tensor logits = finished(wide_product(x, false, table_, true), options_);
    at::Tensor log_p = logits.log_softmax(-1), p = log_p.exp();
    const std::vector<TokenValues> own = list_of(values_of(logits, log_p, p, tile));
    log_p.reset();
    if (values != nullptr) values->insert(values->end(), own.begin(), own.end());
    if (loss_ == nullptr) return;
    std::vector<double> by_log_prob, by_mean;
    for (const TokenValues& value : own) {
      const TokenTerm term = (*loss_)(first++, value);
      sum_ += term.loss;
      by_log_prob.push_back(term.by_log_prob);
      by_mean.push_back(term.by_mean_log_prob);
    }
    if (d_hidden_.defined()) add_gradients(tile, x, logits, p, by_log_prob, by_mean);
  }

  // Turns p into the gradient of the logits.
  void add_gradients(const TileTargets& tile, const at::Tensor& x, const at::Tensor& logits, at::Tensor& p,
                     const std::vector<double>& by_log_prob, const std::vector<double>& by_mean) {
    const auto on_device = [&](const std::vector<double>& values) {
      return at::tensor(values, at::kDouble).to(logits.scalar_type()).to(logits.device());
    };
    const at::Tensor own = on_device(by_log_prob), mean = on_device(by_mean);
    const auto of_rows = [&](const at::Tensor& values) {
      return at::zeros({x.size(0)}, values.options()).index_add_(0, tile.place, values).unsqueeze(1);
    };
    const at::Tensor spread = of_rows(mean);
    at::Tensor& d = p.mul_(-(spread + of_rows(own))).add_(spread / static_cast<double>(logits.size(1)));
    d.index_put_({tile.place, tile.token}, own, /*accumulate=*/true);
    if (options_.softcap > 0) d.mul_(1 - (logits / options_.softcap).square());
    if (options_.scale != 1) d.mul_(options_.scale);
    const at::Tensor d_logits = d.to(options_.compute);
    d_hidden_.index_copy_(0, tile.row,
                          wide_product(d_logits, false, table_, false).to(d_hidden_.scalar_type()));
    if (!d_head_.defined() && !d_own_.defined()) return;
    const at::Tensor of_table = wide_product(d_logits, true, x, false);
    if (d_own_.defined()) d_own_.add_(of_table.index_select(0, ids_));
    if (d_head_.defined()) d_weight_.add_(ids_.defined() ? of_table.index_fill(0, ids_, 0) : of_table);
  }

  const at::Tensor& hidden_;
  const at::Tensor table_;
  const HeadTargets& targets_;
  const TokenLoss* const loss_;
  const HeadOptions& options_;
  at::Tensor d_hidden_, d_head_, d_own_;
  at::Tensor ids_, d_weight_;
  double sum_ = 0;
};

at::Tensor scalar(double value, const at::Tensor& hidden) {
  return at::full({}, value, hidden.options().dtype(wide_type(hidden)));
}

struct HeadUses {
  tensor::Use head, own_rows;
};

// Makes the gradients together with the loss.
struct HeadLoss : torch::autograd::Function<HeadLoss> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& hidden, Parameter* head,
                            const HeadTargets& targets, const TokenLoss& loss, const HeadOptions& options,
                            std::vector<TokenValues>* values) {
    const at::Tensor d_hidden = at::zeros_like(hidden.detach());
    const OwnRows* const own = own_rows(options);
    tensor::Use use(*head), own_use = own != nullptr ? tensor::Use(*own->rows) : tensor::Use();
    double sum = 0;
    const auto sweep = [&](const at::Tensor& d_head) {
      at::Tensor d_own;
      own_use.add([&](at::Tensor& gradient) { d_own = gradient; });
      sum = Sweep(hidden, *head, targets, &loss, options, d_hidden, d_head, d_own).run(values);
    };
    if (use) {
      use.add(sweep);
    } else {
      sweep({});
    }
    keep(context, tensor::kHead, {d_hidden});
    keep(context, HeadUses{std::move(use), std::move(own_use)});
    return scalar(sum, hidden);
  }
  static tensor_list backward(AutogradContext* context, tensor_list grads) {
    check_start_of_backward(grads[0]);
    auto& uses = kept<HeadUses>(context);
    uses.head.end();
    uses.own_rows.end();
    return {kept(context)[0], {}, {}, {}, {}, {}};
  }
};

}  // namespace

std::vector<TokenValues> head_values(const at::Tensor& hidden, Parameter& head, const HeadTargets& targets,
                                     const HeadOptions& options) {
  std::vector<TokenValues> values;
  Sweep(hidden, head, targets, nullptr, options).run(&values);
  return values;
}

at::Tensor head_loss(const at::Tensor& hidden, Parameter& head, const HeadTargets& targets,
                     const TokenLoss& loss, const HeadOptions& options, std::vector<TokenValues>* values) {
  if (records(hidden)) return HeadLoss::apply(hidden, &head, targets, loss, options, values);
  return scalar(Sweep(hidden, head, targets, &loss, options).run(values), hidden);
}

at::Tensor head_logits(const at::Tensor& hidden, Parameter& head, const HeadOptions& options) {
  const at::Tensor table = table_of(head, options).to(options.compute);
  return finished(wide_product(hidden.to(options.compute), false, table, true).to(at::kFloat), options);
}

}  // namespace trl::kernels::plain
