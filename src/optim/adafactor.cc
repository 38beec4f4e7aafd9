// Adafactor: the second moment of a matrix is kept as one number per row and one per column. Its update is
// scaled by its own size, so a matrix is read three times: squares, size of the update, update.
#include <cmath>

#include "kernels/path.h"
#include "optim/norm.h"
#include "optim/plain.h"
#include "optim/rules.h"
#include "tensor/memory/counted.h"
#include "tensor/threads/parallel.h"

namespace trl::optim {

namespace {

// One parameter as `matrices` of rows x columns; a vector is one row, whose row factor is 1.
struct Shape {
  int64_t matrices = 1, rows = 1, columns = 1;
  bool factored = false;
  // At most 64 blocks of rows, for any number of threads: each has its own column sums.
  int64_t block = 1, blocks = 1;
  int64_t first(int64_t m, int64_t b) const { return (m * rows + b * block) * columns; }  // element
};
Shape shape_of(const Parameter& parameter) {
  const at::IntArrayRef sizes = parameter.shape();
  Shape shape;
  shape.factored = sizes.size() >= 2;
  shape.columns = sizes.empty() ? 1 : sizes.back();
  if (shape.factored) shape.rows = sizes[sizes.size() - 2];
  const int64_t each = shape.rows * shape.columns;
  shape.matrices = each > 0 ? parameter.count() / each : 0;
  shape.block = std::max((shape.rows + 63) / 64,
                         (kPieceElements + shape.columns - 1) / std::max<int64_t>(1, shape.columns));
  shape.blocks = (shape.rows + shape.block - 1) / shape.block;
  return shape;
}

struct Moments {
  at::Tensor row, column;  // exp_avg_sq_row, exp_avg_sq_col; for a vector: none, exp_avg_sq
  at::Tensor exp_avg;      // with a first moment
};

class Adafactor final : public Optimizer {
 public:
  Adafactor(std::vector<Parameter*> parameters, const AdafactorOptions& options, const Common& common)
      : Optimizer(std::move(parameters)), options_(options), common_(common) {
    for (const Parameter* p : parameters_) states_.push_back(new_state(*p));
  }

  std::vector<StateTensor> state() const override {
    std::vector<StateTensor> out;
    for (size_t p = 0; p < parameters_.size(); ++p) {
      const std::string name = parameters_[p]->name;
      const bool factored = states_[p].row.defined();
      if (factored) out.push_back({name + ".exp_avg_sq_row", states_[p].row});
      out.push_back({name + (factored ? ".exp_avg_sq_col" : ".exp_avg_sq"), states_[p].column});
      if (states_[p].exp_avg.defined()) out.push_back({name + ".exp_avg", states_[p].exp_avg});
    }
    return out;
  }

 private:
  void update(size_t p, double learning_rate, double grad_scale) override {
    const tensor::Writing values = parameters_[p]->write();
    const double rate_now = rate(*values, learning_rate);
    if (kernels::fused(*values))
      step_parameter(p, values, rate_now, grad_scale);
    else
      step_plain(p, values, rate_now, grad_scale);
  }

  Moments new_state(const Parameter& parameter) const {
    const auto zeros = [&](const std::vector<int64_t>& sizes) {
      return tensor::zeros(sizes, at::kFloat, base::MemoryKind::optimizer, parameter.device());
    };
    std::vector<int64_t> rows = parameter.shape().vec(), columns = rows;
    Moments state;
    if (rows.size() >= 2) {
      rows.pop_back();
      columns.erase(columns.end() - 2);
      state.row = zeros(rows);
    }
    state.column = zeros(columns);
    if (options_.beta1 != 0) state.exp_avg = zeros(parameter.shape().vec());
    return state;
  }

  double rate(const at::Tensor& values, double learning_rate) const {
    const auto step = static_cast<double>(steps_);
    double rate = learning_rate;
    if (options_.relative_step)
      rate = std::min(options_.warmup_init ? 1e-6 * step : 1e-2, 1.0 / std::sqrt(step));
    if (!options_.scale_parameter) return rate;
    const double mean_square_root = l2_norm({values}) / std::sqrt(static_cast<double>(values.numel()));
    return rate * std::max(options_.scale_epsilon, mean_square_root);
  }

  double beta2() const { return 1.0 - std::pow(static_cast<double>(steps_), options_.decay_rate); }

  // Takes the same step in ATen's operators, as transformers writes it.
  void step_plain(size_t p, const tensor::Writing& values, double rate_now, double grad_scale) {
    const Parameter& parameter = *parameters_[p];
    Moments& state = states_[p];
    plain::Weights weights = plain::weights_of(parameter, values, grad_scale, common_);
    const at::Tensor square = weights.grad.square() + options_.epsilon;
    const double keep2 = beta2();
    at::Tensor change;
    if (state.row.defined()) {
      state.row.mul_(keep2).add_(square.mean(-1), 1 - keep2);
      state.column.mul_(keep2).add_(square.mean(-2), 1 - keep2);
      const at::Tensor row = (state.row / state.row.mean(-1, true)).rsqrt();
      change = row.unsqueeze(-1) * state.column.rsqrt().unsqueeze(-2) * weights.grad;
    } else {
      state.column.mul_(keep2).add_(square, 1 - keep2);
      change = state.column.rsqrt() * weights.grad;
    }
    const at::Tensor size = change.square().mean().sqrt();
    change = change * (rate_now / (size / options_.clip_threshold).clamp_min(1.0));
    if (state.exp_avg.defined()) {
      state.exp_avg.mul_(options_.beta1).add_(change, 1 - options_.beta1);
      change = state.exp_avg;
    }
    const at::Tensor kept = weights.value.to(at::kFloat) * (1.0 - rate_now * weights.weight_decay);
    const Shape shape = shape_of(parameter);
    const at::Tensor matrices = weights.value.view({shape.matrices, -1}),
                     updated = (kept - change).view({shape.matrices, -1});
    for (int64_t m = 0; m < shape.matrices; ++m) plain::store(updated[m], matrices[m], keys(p, shape, m));
  }

  base::CounterKey key(size_t p, int64_t first) const {
    return base::counter_key({common_.seed, static_cast<uint64_t>(steps_), p, static_cast<uint64_t>(first)});
  }
  plain::Keys keys(size_t p, const Shape& shape, int64_t m) const {
    plain::Keys keys{{}, shape.block * shape.columns};
    if (!common_.stochastic_rounding || parameters_[p]->dtype() != at::kBFloat16) return keys;
    for (int64_t b = 0; b < shape.blocks; ++b) keys.keys.push_back(key(p, shape.first(m, b)));
    return keys;
  }

  void step_parameter(size_t p, const tensor::Writing& values, double rate_now, double grad_scale) {
    const Parameter& parameter = *parameters_[p];
    const Shape shape = shape_of(parameter);
    const int64_t block = shape.block, blocks = shape.blocks;
    const Slice whole = slice_of(parameter, values, grad_scale, common_);
    const auto matrix = [&](int64_t m, int64_t b) {
      const int64_t first = shape.first(m, b);
      MatrixRows part{part_of(whole, first, std::min(block, shape.rows - b * block) * shape.columns),
                      shape.columns};
      if (whole.stochastic) part.slice.key = key(p, first);
      return part;
    };
    const auto each_block = [&](const auto& body) {
      tensor::parallel_for(shape.matrices * blocks, 1, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) body(i, i / blocks, i % blocks);
      });
    };

    std::vector<float> row(static_cast<size_t>(shape.matrices * shape.rows), 1.0f);
    std::vector<float> column(static_cast<size_t>(shape.matrices * shape.columns));
    {
      std::vector<double> row_sums(row.size());
      std::vector<double> column_sums(static_cast<size_t>(shape.matrices * blocks * shape.columns));
      each_block([&](int64_t i, int64_t m, int64_t b) {
        add_squares(matrix(m, b), options_.epsilon, row_sums.data() + m * shape.rows + b * block,
                    column_sums.data() + i * shape.columns);
      });
      for (int64_t m = 0; m < shape.matrices; ++m)
        average(p, shape, m, blocks, row_sums, column_sums, row, column);
    }

    std::vector<double> squares(static_cast<size_t>(shape.matrices * blocks));
    each_block([&](int64_t i, int64_t m, int64_t b) {
      squares[static_cast<size_t>(i)] = sum_update_squares(
          matrix(m, b), row.data() + m * shape.rows + b * block, column.data() + m * shape.columns);
    });
    double total = 0;
    for (const double square : squares) total += square;
    const double size = std::sqrt(total / static_cast<double>(parameter.count()));

    FactoredStep update{};
    update.keep = 1.0 - rate_now * (parameter.decay ? common_.weight_decay : 0.0);
    update.scale = static_cast<float>(rate_now / std::max(1.0, size / options_.clip_threshold));
    update.beta1 = static_cast<float>(options_.beta1);
    update.rest1 = static_cast<float>(1.0 - options_.beta1);
    float* const exp_avg = states_[p].exp_avg.defined() ? states_[p].exp_avg.data_ptr<float>() : nullptr;
    each_block([&](int64_t, int64_t m, int64_t b) {
      const int64_t first = shape.first(m, b);
      apply_factored(matrix(m, b), row.data() + m * shape.rows + b * block, column.data() + m * shape.columns,
                     exp_avg != nullptr ? exp_avg + first : nullptr, update);
    });
  }

  // Moves the state of one matrix towards the means of this step's squares; out: its factors.
  void average(size_t p, const Shape& shape, int64_t m, int64_t blocks, const std::vector<double>& row_sums,
               const std::vector<double>& column_sums, std::vector<float>& row, std::vector<float>& column) {
    const double keep2 = beta2();
    const auto towards = [&](float& state, double mean) {
      state = static_cast<float>(keep2 * static_cast<double>(state) + (1.0 - keep2) * mean);
    };
    float* const columns = states_[p].column.data_ptr<float>() + m * shape.columns;
    for (int64_t c = 0; c < shape.columns; ++c) {
      double sum = 0;
      for (int64_t b = 0; b < blocks; ++b)
        sum += column_sums[static_cast<size_t>((m * blocks + b) * shape.columns + c)];
      towards(columns[c], sum / static_cast<double>(shape.rows));
      column[static_cast<size_t>(m * shape.columns + c)] = 1.0f / std::sqrt(columns[c]);
    }
    if (!shape.factored) return;
    float* const rows = states_[p].row.data_ptr<float>() + m * shape.rows;
    double mean = 0;
    for (int64_t r = 0; r < shape.rows; ++r) {
      towards(rows[r],
              row_sums[static_cast<size_t>(m * shape.rows + r)] / static_cast<double>(shape.columns));
      mean += static_cast<double>(rows[r]) / static_cast<double>(shape.rows);
    }
    for (int64_t r = 0; r < shape.rows; ++r) {
      row[static_cast<size_t>(m * shape.rows + r)] =
          static_cast<float>(1.0 / std::sqrt(static_cast<double>(rows[r]) / mean));
    }
  }

  const AdafactorOptions options_;
  const Common common_;
  std::vector<Moments> states_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adafactor(std::vector<Parameter*> parameters, const AdafactorOptions& options,
                                          const Common& common) {
  return std::make_unique<Adafactor>(std::move(parameters), options, common);
}

}  // namespace trl::optim
