// optim with its optim_args, typed. Names and defaults are those of torch.optim.
#pragma once
#include <cstdint>

#include "config/config.h"
#include "config/optim_names.h"

namespace trl::config {

struct AdemamixArguments {
  double beta1 = 0.9, beta2 = 0.999, beta3 = 0.9999;
  double alpha = 5;
  double eps = 1e-8;
  int64_t t_alpha = 0, t_beta3 = 0;  // steps over which alpha and beta3 grow; 0: full from the start
};

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
  AdemamixArguments ademamix;
  std::optional<double> weight_decay;  // has no effect, as in Trainer
};

const OptimName& optim(const Config& config);  // `adafactor: true` selects it too
// Reads "momentum=0.9, nesterov=true" for the optimizer that optim() gives. Throws Error(invalid_config).
OptimArguments optim_arguments(const Config& config);

}  // namespace trl::config
