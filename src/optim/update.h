// The arithmetic of the optimizers on plain arrays: torch-free, compiled at -O3 once per instruction set and
// chosen at run time. Every element is rounded the same way on each instruction set: float32 inside, and once
// when stored.
#pragma once
#include <array>
#include <cstdint>

#include "base/arithmetic/bfloat16.h"
#include "base/arithmetic/counter_random.h"

namespace trl::optim {

// The storage of an array's elements. The last two: 8-bit codes of io/four_bit.h's dynamic types, times the
// largest magnitude of their block (Dettmers et al. 2022, arXiv 2110.02861).
enum class Codec : uint8_t { f32, bf16, dynamic, unsigned_dynamic };
inline constexpr int64_t kBlock = 256;  // elements of a block of codes; blocks begin at multiples of it
inline bool is_coded(Codec codec) { return codec >= Codec::dynamic; }
inline int64_t element_size(Codec codec) { return codec == Codec::f32 ? 4 : codec == Codec::bf16 ? 2 : 1; }

struct Span {
  void* data = nullptr;
  Codec codec = Codec::f32;
  float* absmax = nullptr;  // one for each block; only for codes
};

// A contiguous part of one parameter, read and written once by an update. Its arrays are stored independently
// of each other.
struct Slice {
  Span value;
  Span grad;                       // read only
  std::array<Span, 3> state = {};  // in the order of the update's list; either all are codes or none is
  int64_t count = 0;
  float grad_scale = 1;
  double weight_decay = 0;
  // bfloat16 weights: round up with probability equal to the fraction that is cut off.
  bool stochastic = false;
  base::CounterKey key = {};  // this part's in this step
};
// begin: for codes a multiple of kBlock. The key is that of the slice.
Slice part_of(const Slice& slice, int64_t begin, int64_t count);

// state: exp_avg, exp_avg_sq, and with AMSGrad max_exp_avg_sq
struct Adam {
  float beta1, beta2;
  float rest1, rest2;     // 1 - beta
  float step_size;        // learning rate / (1 - beta1^t)
  float root_correction;  // sqrt(1 - beta2^t)
  float epsilon;
  double learning_rate;
  bool decoupled;  // weight decay: AdamW's if true, else added to the gradient
  bool amsgrad;
};
// state: momentum_buffer, if there is a momentum
struct Sgd {
  float momentum;  // buffer = momentum * buffer + undamped * gradient
  float undamped;
  float of_gradient, of_buffer;  // factors, times the learning rate, of the terms that are subtracted
  float learning_rate;
  bool buffered;
};
// state: square_avg, grad_avg when centered, momentum_buffer with a momentum
struct Rmsprop {
  float alpha, rest, epsilon, momentum, learning_rate;
  bool centered, buffered;
};
// state: sum
struct Adagrad {
  float learning_rate, epsilon;
};
// state: exp_avg
struct Lion {
  float beta1, beta2, rest1, rest2;
  double learning_rate;
};
// state: exp_avg, exp_avg_slow, exp_avg_sq
struct Ademamix {
  float beta1, beta2, beta3;
  float rest1, rest2, rest3;
  float correction1;      // 1 - beta1^t
  float root_correction;  // sqrt(1 - beta2^t)
  float alpha, epsilon;
  double learning_rate;
};
void update(const Slice& slice, const Adam& step);
void update(const Slice& slice, const Sgd& step);
void update(const Slice& slice, const Rmsprop& step);
void update(const Slice& slice, const Adagrad& step);
void update(const Slice& slice, const Lion& step);
void update(const Slice& slice, const Ademamix& step);

// The values of a type's 256 codes.
const float* code_values(Codec codec);
// Encodes one block, or its first `count` values: its largest magnitude, and the nearest code of each value.
// A value is first rounded to the nearest of 65,536 points from -absmax to absmax, as in bitsandbytes 0.50.2
// on the CPU, so 0 in a block of others becomes the code nearest to absmax / 65,535.
void encode(const float* values, int64_t count, Codec codec, uint8_t* codes, float* absmax);

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
  float scale;  // factor of the update
  float beta1, rest1;
};
// exp_avg: float32 [count], or null
void apply_factored(const MatrixRows& matrix, const float* row, const float* column, float* exp_avg,
                    const FactoredStep& step);

// Sum of squares in double, in a fixed order.
double sum_squares(const float* x, int64_t count);
double sum_squares(const base::bf16* x, int64_t count);

}  // namespace trl::optim
