// Optimizer, clipping and schedules over the parameters' own buffers.
#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/training_arguments.h"
#include "tensor/parameter.h"

namespace trl::optim {

using tensor::Parameter;

// A buffer of an optimizer: "<parameter>.exp_avg". The tensor is the buffer itself; writing to it loads it.
struct StateTensor {
  std::string name;
  at::Tensor value;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // grad_scale multiplies every gradient as it is read (clipping folded in).
  virtual void step(double learning_rate, double grad_scale) = 0;
  // All that a later step depends on, beside the weights: what a checkpoint holds.
  virtual int64_t steps() const = 0;
  virtual void set_steps(int64_t steps) = 0;
  virtual std::vector<StateTensor> state() const = 0;
};
// AdamW as torch: p -= lr wd p; m, v; p -= lr m^ / (sqrt(v^) + eps). State in the weight's type.
std::unique_ptr<Optimizer> make_adamw(std::vector<Parameter*> parameters,
                                      const config::TrainingArguments& arguments);

double grad_norm(const std::vector<Parameter*>& parameters);  // total L2 norm; double sums, deterministic
double clip_scale(double norm, double max_norm);              // min(1, max / (norm + 1e-6)); max <= 0: 1
// Factor of the base learning rate for the update after `done` updates (Trainer's schedules).
double schedule_factor(const config::TrainingArguments& arguments, int64_t done, int64_t max_steps);

}  // namespace trl::optim
