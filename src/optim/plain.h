// The optimizers of update.h in ATen's own operators: for weights on any device, and the reference for the
// fused sweeps. Float32 inside, rounded once when stored.
#pragma once
#include <ATen/ATen.h>

#include <array>

#include "base/arithmetic/counter_random.h"
#include "optim/rules.h"
#include "optim/states.h"

namespace trl::optim::plain {

// Keys of stochastic rounding: elements [i * piece, (i + 1) * piece) are drawn by keys[i]; no keys: round to
// nearest.
struct Keys {
  std::vector<base::CounterKey> keys;
  int64_t piece = 0;
};
void store(const at::Tensor& value, at::Tensor to, const Keys& keys);  // value: float32

// One parameter in a step.
struct Weights {
  at::Tensor value;
  at::Tensor grad;             // float32, scaled
  std::array<State, 3> state;  // in the order of the rule's list
  double weight_decay = 0;
  Keys keys;
};

// Without state and keys.
Weights weights_of(const Parameter& parameter, const tensor::Writing& values, double grad_scale,
                   const Common& common);

void update(Weights& weights, const Adam& step);
void update(Weights& weights, const Sgd& step);
void update(Weights& weights, const Rmsprop& step);
void update(Weights& weights, const Adagrad& step);
void update(Weights& weights, const Lion& step);
void update(Weights& weights, const Ademamix& step);

// Decode and encode: the codes of update.h in blocks over the flattened tensor; the other side is float32.
at::Tensor decode(const at::Tensor& codes, const at::Tensor& absmax, Codec codec);
void encode(const at::Tensor& values, Codec codec, at::Tensor codes, at::Tensor absmax);

double l2_norm(const std::vector<at::Tensor>& tensors);
at::Tensor own_norm(const at::Tensor& x);              // float64
double norm_of(const std::vector<at::Tensor>& norms);  // the norm of all, from the norm of each

}  // namespace trl::optim::plain
