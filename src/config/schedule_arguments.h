// lr_scheduler_type with its lr_scheduler_kwargs, typed. Names and defaults are transformers'.
#pragma once
#include <cstdint>
#include <optional>

#include "config/config.h"

namespace trl::config {

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
