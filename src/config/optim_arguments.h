// optim with its optim_args, typed. Names and defaults are those of torch.optim.
#pragma once
#include <cstdint>

#include "config/config.h"

namespace trl::config {

enum class Optim : uint8_t { adamw, sgd, rmsprop, adagrad, adafactor, lion };

struct OptimArguments {
  double momentum = 0;
  double dampening = 0;
  bool nesterov = false;
  bool maximize = false;
  double alpha = 0.99;
  double eps = 1e-8;  // adagrad: 1e-10
  bool centered = false;
  double lr_decay = 0;
  double initial_accumulator_value = 0;
  std::optional<double> weight_decay;  // has no effect, as in Trainer
};

Optim optim(const Config& config);  // `adafactor: true` stands for it too
// "momentum=0.9, nesterov=true" for the optimizer that optim() gives. Throws Error(invalid_config).
OptimArguments optim_arguments(const Config& config);

}  // namespace trl::config
