// Adafactor's passes over rows of a matrix, and sums of squares.
#include <cmath>

#include "optim/each_isa_cpu.h"
#include "optim/update.h"

namespace trl::optim {

namespace {

constexpr int kLanes = 16;  // independent sums, added up in order: the same result for every vector width

// The sum of term(i), i in [0, count).
template <typename Term>
TRL_INLINE double sum_of(int64_t count, const Term& term) {
  double lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += term(i + lane);
  double sum = 0;
  for (; i < count; ++i) sum += term(i);
  for (double lane : lanes) sum += lane;
  return sum;
}

template <typename T>
double sum_squares_of(const T* x, int64_t count) {
  double sum = 0;
  run([&] {
    sum = sum_of(count, [x](int64_t i) {
      const double value = to_float(x[i]);
      return value * value;
    });
  });
  return sum;
}

// Calls body(gradient row, row index), compiled for each instruction set; T: element type of the gradient.
template <typename T, typename Body>
void each_row(const MatrixRows& matrix, const Body& body) {
  run([&] {
    const T* const grad = static_cast<const T*>(matrix.slice.grad.data);
    const int64_t rows = matrix.slice.count / matrix.columns;
    for (int64_t r = 0; r < rows; ++r) body(grad + r * matrix.columns, r);
  });
}

template <typename T>
void add_squares_of(const MatrixRows& matrix, double epsilon, double* row_sums, double* column_sums) {
  const double scale = matrix.slice.grad_scale;
  const int64_t columns = matrix.columns;
  each_row<T>(matrix, [=](const T* grad, int64_t r) {
    const auto square = [=](int64_t c) {
      const double g = to_float(grad[c]) * scale;
      return g * g + epsilon;
    };
    row_sums[r] += sum_of(columns, square);
#pragma GCC ivdep
    for (int64_t c = 0; c < columns; ++c) column_sums[c] += square(c);
  });
}

template <typename T>
double sum_update_squares_of(const MatrixRows& matrix, const float* row, const float* column) {
  const float scale = matrix.slice.grad_scale;
  const int64_t columns = matrix.columns;
  double sum = 0;
  each_row<T>(matrix, [&](const T* grad, int64_t r) {
    const float by = row[r];
    sum += sum_of(columns, [=](int64_t c) {
      const double change = by * column[c] * (to_float(grad[c]) * scale);
      return change * change;
    });
  });
  return sum;
}

template <bool kRandom, bool kAveraged, typename V, typename G>
void apply_of(const MatrixRows& matrix, const float* row, const float* column, float* exp_avg,
              const FactoredStep& step) {
  const Slice& slice = matrix.slice;
  const int64_t columns = matrix.columns;
  const float keep = static_cast<float>(step.keep);
  each_row<G>(matrix, [&](const G* grad, int64_t r) {
    V* const value = static_cast<V*>(slice.value.data) + r * columns;
    float* const mean = kAveraged ? exp_avg + r * columns : nullptr;
    const float by = row[r], grad_scale = slice.grad_scale, scale = step.scale;
    const float beta1 = step.beta1, rest1 = step.rest1;
    const base::CounterKey key = slice.key;
    const auto first = static_cast<uint32_t>(r * columns);
#pragma GCC ivdep
    for (int64_t c = 0; c < columns; ++c) {
      float change = by * column[c] * (to_float(grad[c]) * grad_scale) * scale;
      if constexpr (kAveraged) change = mean[c] = beta1 * mean[c] + rest1 * change;
      const float p = to_float(value[c]) * keep - change;
      if constexpr (kRandom)
        put_random(value + c, p, key, first + static_cast<uint32_t>(c));
      else
        put(value + c, p);
    }
  });
}

template <bool kRandom, typename V>
void apply_of(const MatrixRows& matrix, const float* row, const float* column, float* exp_avg,
              const FactoredStep& step) {
  const bool narrow = matrix.slice.grad.codec == Codec::bf16;
  const auto apply = exp_avg != nullptr
                         ? (narrow ? apply_of<kRandom, true, V, bf16> : apply_of<kRandom, true, V, float>)
                         : (narrow ? apply_of<kRandom, false, V, bf16> : apply_of<kRandom, false, V, float>);
  apply(matrix, row, column, exp_avg, step);
}

}  // namespace

void add_squares(const MatrixRows& matrix, double epsilon, double* row_sums, double* column_sums) {
  if (matrix.slice.grad.codec == Codec::bf16)
    return add_squares_of<bf16>(matrix, epsilon, row_sums, column_sums);
  add_squares_of<float>(matrix, epsilon, row_sums, column_sums);
}

double sum_update_squares(const MatrixRows& matrix, const float* row, const float* column) {
  return matrix.slice.grad.codec == Codec::bf16 ? sum_update_squares_of<bf16>(matrix, row, column)
                                                : sum_update_squares_of<float>(matrix, row, column);
}

void apply_factored(const MatrixRows& matrix, const float* row, const float* column, float* exp_avg,
                    const FactoredStep& step) {
  if (matrix.slice.value.codec == Codec::f32)
    return apply_of<false, float>(matrix, row, column, exp_avg, step);
  if (matrix.slice.stochastic) return apply_of<true, bf16>(matrix, row, column, exp_avg, step);
  apply_of<false, bf16>(matrix, row, column, exp_avg, step);
}

double sum_squares(const float* x, int64_t count) { return sum_squares_of(x, count); }
double sum_squares(const bf16* x, int64_t count) { return sum_squares_of(x, count); }

}  // namespace trl::optim
