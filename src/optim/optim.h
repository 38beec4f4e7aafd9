// Optimizers, clipping and schedules over the parameters' own buffers.
#pragma once
#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "config/training_arguments.h"
#include "memory/paged_memory.h"
#include "tensor/parameter/parameter.h"

namespace trl::optim {

using tensor::Parameter;

// A buffer of an optimizer: "<parameter>.exp_avg". The tensor is the buffer itself; writing to it loads it.
struct StateTensor {
  std::string name;
  at::Tensor value;
  std::shared_ptr<const memory::PagedMemory> paged = {};  // the file that holds it, if any
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Takes a whole step. grad_scale multiplies every gradient as it is read (clipping folded in).
  void step(double learning_rate, double grad_scale);
  // Takes a step in parts, with the same bits: begin_step(), then each parameter with a gradient once, in any
  // order. Each has all threads to itself.
  void begin_step() { ++steps_; }
  void step(const Parameter& parameter, double learning_rate, double grad_scale);

  // The state that later steps depend on, besides the weights: the content of a checkpoint.
  int64_t steps() const { return steps_; }
  void set_steps(int64_t steps) { steps_ = steps; }
  virtual std::vector<StateTensor> state() const = 0;

 protected:
  explicit Optimizer(std::vector<Parameter*> parameters);  // keeps those with a gradient
  virtual void update(size_t parameter, double learning_rate, double grad_scale) = 0;
  virtual void update_all(double learning_rate, double grad_scale);

  const std::vector<Parameter*> parameters_;
  int64_t steps_ = 0;  // the current step, or the last one

 private:
  const std::unordered_map<const Parameter*, size_t> indices_;
};
// The optimizer that `optim` and `optim_args` name, as Trainer makes it. Parameters without a gradient have
// no state.
std::unique_ptr<Optimizer> make_optimizer(std::vector<Parameter*> parameters,
                                          const config::TrainingArguments& arguments);

// The gradients of the parameters that have one.
std::vector<at::Tensor> gradients(const std::vector<Parameter*>& parameters);
// The norm of all elements together; double sums, deterministic.
double l2_norm(const std::vector<at::Tensor>& tensors);
double clip_scale(double norm, double max_norm);  // min(1, max / (norm + 1e-6)); max <= 0: 1

}  // namespace trl::optim
