// The head from whole logits and their log-softmax in float32, a tile of rows at a time. Values of the size
// of a tile are changed in place if possible: new memory of that size costs more than the arithmetic.
#include "kernels/head/head.h"
#include "kernels/head/plain_table.h"
#include "kernels/op.h"
#include "kernels/plain.h"

namespace trl::kernels::plain {

namespace {

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

// Log-probabilities of targets, and the means over the vocabulary and the entropies of their rows: double
// [targets].
struct LogProbs {
  at::Tensor target, mean, entropy = {};
};

// double [the six of TokenValues, targets]. p: the exponentials of log_p, whose memory is overwritten.
at::Tensor values_of(const at::Tensor& logits, at::Tensor& log_p, const at::Tensor& p, const TileTargets& t,
                     const LogProbs& own) {
  const auto of_row = [&](const at::Tensor& x) { return x.index_select(0, t.place).to(at::kDouble); };
  const at::Tensor best = logits.argmax(-1), squares = at::mul_out(log_p, p, p).sum(-1);
  return at::stack({own.target, own.mean, own.entropy, of_row(logits.mean(-1)), of_row(squares.log()),
                    best.index_select(0, t.place).eq(t.token).to(at::kDouble)});
}

std::vector<TokenValues> list_of(const at::Tensor& values) {
  const auto value = values.accessor<double, 2>();
  std::vector<TokenValues> list;
  for (int64_t i = 0; i < values.size(1); ++i)
    list.push_back({value[0][i], value[1][i], value[2][i], value[3][i], value[4][i], value[5][i] != 0});
  return list;
}

// The terms that term_of() computes, for some targets: double [targets].
struct TokenTerms {
  at::Tensor loss, by_log_prob, by_mean;
  at::Tensor by_entropy = {};  // undefined: 0
};
TokenTerms given_terms(const TokenFormula& f, int64_t first, const LogProbs& own) {
  const at::Tensor log_prob = own.target.cpu();
  const at::Tensor entropy = own.entropy.defined() ? own.entropy.cpu() : at::zeros_like(log_prob);
  const at::Tensor terms = at::empty({4, own.target.size(0)}, at::kDouble);
  auto to = terms.accessor<double, 2>();
  for (int64_t i = 0; i < own.target.size(0); ++i) {
    const auto place = static_cast<size_t>(first + i);
    const TokenTerm t = term_of(f, place, log_prob.data_ptr<double>()[i], 0, entropy.data_ptr<double>()[i]);
    to[0][i] = t.loss;
    to[1][i] = t.by_log_prob;
    to[2][i] = t.by_mean_log_prob;
    to[3][i] = t.by_entropy;
  }
  const at::Tensor there = terms.to(own.target.device());
  return {there[0], there[1], there[2], f.by_entropy() ? there[3] : at::Tensor()};
}
TokenTerms terms_of(const TokenFormula& f, int64_t first, const LogProbs& own) {
  using Kind = TokenFormula::Kind;
  const auto all = [&](double value) { return at::full_like(own.target, value); };
  if (f.kind == Kind::given) return given_terms(f, first, own);
  if (f.kind == Kind::smoothed) {
    const at::Tensor by = all(-f.scale * (1 - f.coefficients[0])),
                     by_mean = all(-f.scale * f.coefficients[0]);
    return {by * own.target + by_mean * own.mean, by, by_mean};
  }
  at::Tensor by = all(-f.scale);
  if (f.kind == Kind::dft) by.mul_(own.target.exp());
  if (f.kind == Kind::weighted) {
    const auto begin = f.columns[0].begin() + first;
    const std::vector<double> weights(begin, begin + own.target.size(0));
    by = at::tensor(weights, at::kDouble).mul_(f.scale).to(own.target.device());
  }
  return {by * own.target, by, all(0)};
}

class Sweep {
 public:
  // formula: null: values only.
  Sweep(const at::Tensor& hidden, Parameter& head, const HeadTargets& targets, const TokenFormula* formula,
        const HeadOptions& options, const HeadGradients& to)
      : hidden_(hidden),
        table_(hidden, head, options, to),
        targets_(targets),
        formula_(formula),
        options_(options),
        sum_(at::zeros({}, hidden.options().dtype(at::kDouble))) {}

  at::Tensor run(std::vector<TokenValues>* values) {
    const int64_t rows = table_.tile_rows();
    table_.begin(rows < targets_.size());
    std::vector<at::Tensor> tiles;
    for (int64_t first = 0, end = 0; first < targets_.size(); first = end) {
      base::poll();
      end = end_of(first, rows);
      run_tile(targets_of(targets_, first, end, hidden_.device()), first,
               values != nullptr ? &tiles : nullptr);
    }
    table_.finish();
    if (values != nullptr)
      *values = tiles.empty() ? std::vector<TokenValues>() : list_of(at::cat(tiles, 1).cpu());
    return sum_.to(wide_type(hidden_));
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

  // values: if not null, gets those of the tile, which stay on its device.
  void run_tile(const TileTargets& tile, int64_t first, std::vector<at::Tensor>* values) {
    const at::Tensor x = hidden_.detach().index_select(0, tile.row).to(options_.compute);
    const at::Tensor logits = table_.logits(x);
    at::Tensor log_p = logits.log_softmax(-1), p = log_p.exp();
    const auto of_targets = [&](const at::Tensor& of_rows) {
      return of_rows.index_select(0, tile.place).to(at::kDouble);
    };
    LogProbs own{log_p.index({tile.place, tile.token}).to(at::kDouble), of_targets(log_p.mean(-1))};
    if (values != nullptr || formula_->by_entropy()) own.entropy = of_targets(log_p.mul_(p).sum(-1).neg());
    if (values != nullptr) values->push_back(values_of(logits, log_p, p, tile, own));
    log_p.reset();
    if (formula_ == nullptr) return;
    const TokenTerms terms = terms_of(*formula_, first, own);
    sum_.add_(terms.loss.sum());
    if (table_.learns()) add_gradients(tile, x, logits, p, terms);
  }

  // Turns p into the gradient of the logits.
  void add_gradients(const TileTargets& tile, const at::Tensor& x, const at::Tensor& logits, at::Tensor& p,
                     const TokenTerms& terms) {
    const at::Tensor own = terms.by_log_prob.to(logits.scalar_type()),
                     mean = terms.by_mean.to(logits.scalar_type());
    const auto of_rows = [&](const at::Tensor& values) {
      return at::zeros({x.size(0)}, values.options()).index_add_(0, tile.place, values).unsqueeze(1);
    };
    const at::Tensor spread = of_rows(mean);
    at::Tensor by_probs = -(spread + of_rows(own));
    if (terms.by_entropy.defined()) {
      const at::Tensor log_p = logits.log_softmax(-1);
      const at::Tensor above = log_p + (log_p * p).sum(-1, true).neg();  // log p + H
      by_probs = by_probs - of_rows(terms.by_entropy.to(logits.scalar_type())) * above;
    }
    at::Tensor& d = p.mul_(by_probs).add_(spread / static_cast<double>(logits.size(1)));
    d.index_put_({tile.place, tile.token}, own, /*accumulate=*/true);
    table_.add(tile.row, x, logits, d);
  }

  const at::Tensor& hidden_;
  PlainTable table_;
  const HeadTargets& targets_;
  const TokenFormula* const formula_;
  const HeadOptions& options_;
  at::Tensor sum_;
};

}  // namespace

at::Tensor head_sweep(const at::Tensor& hidden, Parameter& head, const HeadTargets& targets,
                      const TokenFormula* formula, const HeadOptions& options, const HeadGradients& gradients,
                      std::vector<TokenValues>* values) {
  return Sweep(hidden, head, targets, formula, options, gradients).run(values);
}

}  // namespace trl::kernels::plain
