// The arithmetic of the optimizers on plain arrays: torch-free, compiled at -O3 once per instruction set and
// chosen at run time. Every element is rounded the same way whichever is chosen. bfloat16 is passed as its
// uint16_t bits.
#pragma once
#include <cstdint>

namespace trl::optim {

// One AdamW update as torch's fused kernel: decay, moments, step; all in float32.
struct AdamwStep {
  float keep;   // 1 - learning rate * weight decay
  float first;  // 1 - beta1
  float beta2;
  float second;           // 1 - beta2
  float step_size;        // learning rate / (1 - beta1^t)
  float root_correction;  // sqrt(1 - beta2^t)
  float epsilon;
  float grad_scale;
};

void adamw(float* value, const float* grad, float* m, float* v, int64_t count, const AdamwStep& step);
void adamw(uint16_t* value, const uint16_t* grad, uint16_t* m, uint16_t* v, int64_t count,
           const AdamwStep& step);

// Sum of squares in double, in a fixed order.
double sum_squares(const float* x, int64_t count);
double sum_squares(const uint16_t* x, int64_t count);

}  // namespace trl::optim
