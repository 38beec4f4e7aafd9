// The arithmetic of the optimizers on plain arrays: torch-free, compiled at -O3 once per instruction set and
// chosen at run time. Every element is rounded the same way whichever is chosen: float32 inside, and once
// when it is stored. bfloat16 is passed as its uint16_t bits.
#pragma once
#include <array>
#include <cstdint>

#include "base/counter.h"

namespace trl::optim {

// A stretch of one parameter, read and written once by an update. State buffers have the weight's type.
struct Slice {
  void* value = nullptr;
  const void* grad = nullptr;
  std::array<void*, 3> state = {};  // in the order of the update's list
  int64_t count = 0;
  bool bf16 = false;
  float grad_scale = 1;
  double weight_decay = 0;
  bool stochastic = false;    // bfloat16 weights: round up with the probability of the part that is cut off
  base::CounterKey key = {};  // of this stretch in this step
};

struct Adam {  // state: exp_avg, exp_avg_sq, and max_exp_avg_sq of AMSGrad
  float beta1, beta2;
  float rest1, rest2;     // 1 - beta
  float step_size;        // learning rate / (1 - beta1^t)
  float root_correction;  // sqrt(1 - beta2^t)
  float epsilon;
  double learning_rate;
  bool decoupled;  // weight decay: AdamW's, or added to the gradient
  bool amsgrad;
};
struct Sgd {       // state: momentum_buffer, with a momentum
  float momentum;  // buffer = momentum * buffer + undamped * gradient
  float undamped;
  float of_gradient, of_buffer;  // what is subtracted, times the learning rate
  float learning_rate;
  bool buffered;
};
struct Rmsprop {  // state: square_avg, grad_avg when centered, momentum_buffer with a momentum
  float alpha, rest, epsilon, momentum, learning_rate;
  bool centered, buffered;
};
struct Adagrad {  // state: sum
  float learning_rate, epsilon;
};
struct Lion {  // state: exp_avg
  float beta1, beta2, rest1, rest2;
  double learning_rate;
};
void update(const Slice& slice, const Adam& step);
void update(const Slice& slice, const Sgd& step);
void update(const Slice& slice, const Rmsprop& step);
void update(const Slice& slice, const Adagrad& step);
void update(const Slice& slice, const Lion& step);

// Adafactor's three passes over rows of a matrix; the update of an element is row[i] * column[j] * gradient.
struct MatrixRows {
  Slice slice;  // value, grad, count = rows * columns; state: none (state of Adafactor is float32)
  int64_t columns = 0;
};
// row_sums[i] and column_sums[j] += gradient^2 + epsilon
void add_squares(const MatrixRows& matrix, double epsilon, double* row_sums, double* column_sums);
double sum_update_squares(const MatrixRows& matrix, const float* row, const float* column);
struct FactoredStep {
  double keep;  // 1 - learning rate * weight decay
  float scale;  // of the update
  float beta1, rest1;
};
// exp_avg: float32 [count], or null
void apply_factored(const MatrixRows& matrix, const float* row, const float* column, float* exp_avg,
                    const FactoredStep& step);

// Sum of squares in double, in a fixed order.
double sum_squares(const float* x, int64_t count);
double sum_squares(const uint16_t* x, int64_t count);

}  // namespace trl::optim
