// Reads each schedule's own arguments, with the ranges in which it makes sense.
#include "config/schedule_arguments.h"

#include "base/error.h"
#include "base/text/number.h"
#include "config/named_values.h"
#include "config/option_value.h"

namespace trl::config {

namespace {

constexpr std::string_view kSchedulerKwargs = "lr_scheduler_kwargs";

// Reads a learning rate that is given directly, or as a share of learning_rate.
void min_lr(const Config& config, NamedValues& values, ScheduleArguments& out) {
  const double learning_rate = config.get_double("learning_rate");
  std::optional<double> absolute, share;
  values.number("min_lr", ">= 0", absolute);
  values.number("min_lr_rate", "[0, 1]", share);
  const std::string type = config.get("lr_scheduler_type");
  if (absolute.has_value() == share.has_value()) {
    fail_key(kSchedulerKwargs, "{}: lr_scheduler_type {} needs one of min_lr and min_lr_rate",
             kSchedulerKwargs, type);
  }
  if (absolute && *absolute > learning_rate) {
    fail_key(kSchedulerKwargs, "{}: min_lr: {} is above the learning_rate {}", kSchedulerKwargs,
             base::format_double(*absolute), base::format_double(learning_rate));
  }
  if (absolute) share = learning_rate > 0 ? *absolute / learning_rate : 0;
  out.min_lr_rate = *share;
}

void polynomial(const Config& config, NamedValues& values, ScheduleArguments& out) {
  values.number("power", "> 0", out.power);
  values.number("lr_end", ">= 0", out.lr_end);
  const double learning_rate = config.get_double("learning_rate");
  if (out.lr_end >= learning_rate) {
    fail_key(kSchedulerKwargs, "{}: lr_end: {} is not below the learning_rate {}", kSchedulerKwargs,
             base::format_double(out.lr_end), base::format_double(learning_rate));
  }
}

void curve(NamedValues& values, std::string_view name, Curve& out) {
  const std::optional<size_t> chosen = values.word(name, {"linear", "cosine", "1-sqrt"});
  if (chosen) out = static_cast<Curve>(*chosen);
}

void warmup_stable_decay(NamedValues& values, ScheduleArguments& out) {
  if (!values.given("num_decay_steps")) {
    fail_key(kSchedulerKwargs, "{}: lr_scheduler_type warmup_stable_decay needs num_decay_steps",
             kSchedulerKwargs);
  }
  values.integer("num_decay_steps", ">= 0", out.num_decay_steps);
  values.integer("num_stable_steps", ">= 0", out.num_stable_steps);
  curve(values, "warmup_type", out.warmup_type);
  curve(values, "decay_type", out.decay_type);
  values.number("min_lr_ratio", "[0, 1]", out.min_lr_ratio);
  values.number("num_cycles", "> 0", out.num_cycles);
}

void plateau(const Config& config, NamedValues& values, PlateauArguments& out) {
  if (config.get("eval_strategy") == "no") {
    fail_key("lr_scheduler_type",
             "lr_scheduler_type reduce_lr_on_plateau needs evaluations; give eval_strategy: steps or epoch");
  }
  out.mode_max = values.word("mode", {"min", "max"}).value_or(0) == 1;
  values.number("factor", "(0, 1)", out.factor);
  values.integer("patience", ">= 0", out.patience);
  values.number("threshold", ">= 0", out.threshold);
  out.threshold_abs = values.word("threshold_mode", {"rel", "abs"}).value_or(0) == 1;
  values.integer("cooldown", ">= 0", out.cooldown);
  values.number("min_lr", ">= 0", out.min_lr);
  values.number("eps", ">= 0", out.eps);
}

}  // namespace

Scheduler scheduler(const Config& config) {
  constexpr std::string_view kNames[] = {"linear",
                                         "cosine",
                                         "cosine_with_restarts",
                                         "polynomial",
                                         "constant",
                                         "constant_with_warmup",
                                         "inverse_sqrt",
                                         "reduce_lr_on_plateau",
                                         "cosine_with_min_lr",
                                         "cosine_warmup_with_min_lr",
                                         "warmup_stable_decay"};
  const std::string name = config.get("lr_scheduler_type");
  const auto found = std::find(std::begin(kNames), std::end(kNames), name);
  return static_cast<Scheduler>(found - std::begin(kNames));
}

ScheduleArguments schedule_arguments(const Config& config) {
  ScheduleArguments out;
  NamedValues values(kSchedulerKwargs, "lr_scheduler_type " + config.get("lr_scheduler_type"),
                     config.get_pairs(kSchedulerKwargs));
  switch (scheduler(config)) {
    case Scheduler::linear:
    case Scheduler::constant:
    case Scheduler::constant_with_warmup:
      break;
    case Scheduler::cosine:
      values.number("num_cycles", "> 0", out.num_cycles);
      break;
    case Scheduler::cosine_with_restarts: {
      int64_t cycles = 1;
      values.integer("num_cycles", "> 0", cycles);
      out.num_cycles = static_cast<double>(cycles);
      break;
    }
    case Scheduler::polynomial:
      polynomial(config, values, out);
      break;
    case Scheduler::inverse_sqrt:
      values.integer("timescale", "> 0", out.timescale);
      break;
    case Scheduler::reduce_lr_on_plateau:
      plateau(config, values, out.plateau);
      break;
    case Scheduler::cosine_warmup_with_min_lr:
      values.number("warmup_lr_rate", "[0, 1]", out.warmup_lr_rate);
      [[fallthrough]];
    case Scheduler::cosine_with_min_lr:
      values.number("num_cycles", "> 0", out.num_cycles);
      min_lr(config, values, out);
      break;
    case Scheduler::warmup_stable_decay:
      warmup_stable_decay(values, out);
      break;
  }
  values.finish();
  return out;
}

}  // namespace trl::config
