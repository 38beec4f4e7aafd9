// Optimizers, clipping and schedules over the parameters' own buffers.
#pragma once
#include <ATen/ATen.h>

#include <cstdint>
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
// The one that `optim` and `optim_args` name, as Trainer makes it. Parameters without a gradient have no
// state.
std::unique_ptr<Optimizer> make_optimizer(std::vector<Parameter*> parameters,
                                          const config::TrainingArguments& arguments);

std::vector<at::Tensor> gradients(const std::vector<Parameter*>& parameters);  // of those that have one
double l2_norm(const std::vector<at::Tensor>& tensors);  // of all together; double sums, deterministic
double clip_scale(double norm, double max_norm);         // min(1, max / (norm + 1e-6)); max <= 0: 1

}  // namespace trl::optim
