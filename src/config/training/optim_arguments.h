// optim with its optim_args, typed: the optimizer of each name, how it holds its states, and its arguments,
// whose names and defaults are those of torch.optim. And lr_scheduler_type with its lr_scheduler_kwargs,
// whose names and defaults are transformers'.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "config/config.h"

namespace trl::config {

enum class Optim : uint8_t { adamw, sgd, rmsprop, adagrad, adafactor, lion, ademamix };
// as_weights: in the type of the weight. eight_bit: codes in blocks, float32 in the same cases as
// bitsandbytes.
enum class OptimStates : uint8_t { as_weights, float32, eight_bit };

struct OptimName {
  std::string_view name;
  Optim optim;
  OptimStates states;
  bool paged = false;  // in a file
  // The name with the same numbers in the same states; empty: this name.
  std::string_view canonical = {};
};

// Throws Error(invalid_config), naming the nearest optimizer, for a transformers name that is not built.
const OptimName& optim_named(std::string_view key, std::string_view name);

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

// In the order of the table of options.
enum class Scheduler : uint8_t {
  linear,
  cosine,
  cosine_with_restarts,
  polynomial,
  constant,
  constant_with_warmup,
  inverse_sqrt,
  reduce_lr_on_plateau,
  cosine_with_min_lr,
  cosine_warmup_with_min_lr,
  warmup_stable_decay,
};
enum class Curve : uint8_t { linear, cosine, one_minus_sqrt };

// Arguments of torch's ReduceLROnPlateau.
struct PlateauArguments {
  bool mode_max = false;
  double factor = 0.1;
  int64_t patience = 10;
  double threshold = 1e-4;
  bool threshold_abs = false;
  int64_t cooldown = 0;
  double min_lr = 0;
  double eps = 1e-8;
};

struct ScheduleArguments {
  double num_cycles = 0.5;  // cosine_with_restarts: 1
  double power = 1;
  double lr_end = 1e-7;
  std::optional<int64_t> timescale;      // none: the warmup, or 10 000 without one
  double min_lr_rate = 0;                // min_lr is folded in
  std::optional<double> warmup_lr_rate;  // none: 1 / warmup
  int64_t num_decay_steps = 0;
  std::optional<int64_t> num_stable_steps;  // none: the steps that warmup and decay leave
  Curve warmup_type = Curve::linear;
  Curve decay_type = Curve::cosine;
  double min_lr_ratio = 0;
  PlateauArguments plateau;
};

Scheduler scheduler(const Config& config);
// Also reads learning_rate, to which min_lr and lr_end are compared. Throws Error(invalid_config).
ScheduleArguments schedule_arguments(const Config& config);

}  // namespace trl::config
