// The definitions of elementwise optimizers, which treat each weight independently, and of Adafactor.
#pragma once
#include <functional>
#include <variant>

#include "optim/optim.h"
#include "optim/states.h"
#include "optim/update.h"

namespace trl::optim {

// Settings that all optimizers share.
struct Common {
  double weight_decay = 0;  // for parameters that decay
  bool stochastic_rounding = false;
  uint64_t seed = 0;      // for stochastic rounding
  StateForm states = {};  // for elementwise optimizers
};

using Update = std::variant<Adam, Sgd, Rmsprop, Adagrad, Lion, Ademamix>;
// An elementwise optimizer: torch's names of its buffers, and the update of a step, which counts from 1.
struct Rule {
  std::vector<StateKind> state;
  double initial = 0;  // initial value of the buffers
  bool maximize = false;
  std::function<Update(int64_t step, double learning_rate)> at;
};
std::unique_ptr<Optimizer> make_elementwise(std::vector<Parameter*> parameters, Rule rule,
                                            const Common& common);

struct AdamOptions {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  bool decoupled = true;  // AdamW (Loshchilov & Hutter 2019); false: Adam with L2 regularization
  bool amsgrad = false;
};
Rule adam(const AdamOptions& options);
Rule sgd(const config::OptimArguments& options);
Rule rmsprop(const config::OptimArguments& options);
Rule adagrad(const config::OptimArguments& options);
Rule lion(double beta1, double beta2);
Rule ademamix(const config::AdemamixArguments& options);

// Adafactor (Shazeer & Stern 2018) as in transformers; the defaults are Trainer's. State is float32.
struct AdafactorOptions {
  double epsilon = 1e-30, scale_epsilon = 1e-3;
  double clip_threshold = 1.0;
  double decay_rate = -0.8;
  double beta1 = 0;  // 0: no first moment
  bool scale_parameter = false;
  bool relative_step = false;  // replaces the learning rate
  bool warmup_init = false;
};
std::unique_ptr<Optimizer> make_adafactor(std::vector<Parameter*> parameters, const AdafactorOptions& options,
                                          const Common& common);

// A whole parameter as one slice, without state and key.
Slice slice_of(const Parameter& parameter, const tensor::Writing& values, double grad_scale,
               const Common& common);

}  // namespace trl::optim
