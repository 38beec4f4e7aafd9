// Reads each schedule's own arguments, with the ranges in which it makes sense.
#include "config/training/optim_arguments.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/text/number.h"
#include "config/table/option.h"
#include "config/table/option_value.h"
#include "config/training/named_values.h"

namespace trl::config {

namespace {

using O = Optim;
using S = OptimStates;

constexpr OptimName kNames[] = {
    {"adamw_torch_fused", O::adamw, S::as_weights},
    {"adamw_torch", O::adamw, S::as_weights, false, "adamw_torch_fused"},
    {"adamw_8bit", O::adamw, S::eight_bit},
    {"adamw_bnb_8bit", O::adamw, S::eight_bit, false, "adamw_8bit"},
    {"paged_adamw_8bit", O::adamw, S::eight_bit, true, "adamw_8bit"},
    {"paged_adamw_32bit", O::adamw, S::float32, true},
    {"ademamix", O::ademamix, S::float32},
    {"ademamix_8bit", O::ademamix, S::eight_bit},
    {"paged_ademamix_32bit", O::ademamix, S::float32, true, "ademamix"},
    {"paged_ademamix_8bit", O::ademamix, S::eight_bit, true, "ademamix_8bit"},
    {"lion_32bit", O::lion, S::float32},
    {"lion_8bit", O::lion, S::eight_bit},
    {"paged_lion_32bit", O::lion, S::float32, true, "lion_32bit"},
    {"paged_lion_8bit", O::lion, S::eight_bit, true, "lion_8bit"},
    {"rmsprop", O::rmsprop, S::as_weights},
    {"rmsprop_bnb", O::rmsprop, S::float32},
    {"rmsprop_bnb_32bit", O::rmsprop, S::float32, false, "rmsprop_bnb"},
    {"rmsprop_bnb_8bit", O::rmsprop, S::eight_bit},
    {"sgd", O::sgd, S::as_weights},
    {"adagrad", O::adagrad, S::as_weights},
    {"adafactor", O::adafactor, S::float32},
};

struct Missing {
  std::string_view name, why, nearest;
};
constexpr std::string_view kTorchao = "it is torchao's, which this build does not have";
constexpr std::string_view kDevice = "it is for a device that this build does not know";
constexpr std::string_view kLowRank = "gradients are not projected in this build";
constexpr std::string_view kOther = "this build does not have it";
constexpr Missing kMissing[] = {
    {"adamw_torch_4bit", kTorchao, "adamw_8bit"},
    {"adamw_torch_8bit", kTorchao, "adamw_8bit"},
    {"adamw_torch_xla", kDevice, "adamw_torch"},
    {"adamw_torch_npu_fused", kDevice, "adamw_torch"},
    {"adamw_anyprecision", kOther, "adamw_torch"},
    {"galore_adamw", kLowRank, "adamw_8bit"},
    {"galore_adamw_8bit", kLowRank, "adamw_8bit"},
    {"galore_adafactor", kLowRank, "adafactor"},
    {"galore_adamw_layerwise", kLowRank, "adamw_8bit"},
    {"galore_adamw_8bit_layerwise", kLowRank, "adamw_8bit"},
    {"galore_adafactor_layerwise", kLowRank, "adafactor"},
    {"apollo_adamw", kLowRank, "adamw_8bit"},
    {"apollo_adamw_layerwise", kLowRank, "adamw_8bit"},
    {"lomo", kOther, "sgd"},
    {"adalomo", kOther, "adafactor"},
    {"grokadamw", kOther, "adamw_torch"},
    {"stable_adamw", kOther, "adamw_torch"},
    {"schedule_free_adamw", kOther, "adamw_torch"},
    {"schedule_free_radam", kOther, "adamw_torch"},
    {"schedule_free_sgd", kOther, "sgd"},
};

constexpr std::string_view kOptimArgs = "optim_args";

std::vector<std::pair<std::string, std::string>> pairs(const std::string& text) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const std::string_view item : split_words(text, ',')) {
    const std::vector<std::string_view> sides = split_words(item, '=');
    if (sides.size() != 2) {
      fail_key(kOptimArgs, "{}: {} is not accepted; give name=value, with commas between them", kOptimArgs,
               shown(item));
    }
    if (std::ranges::any_of(out, [&](const auto& before) { return before.first == sides[0]; }))
      fail_key(kOptimArgs, "{}: {} is given twice", kOptimArgs, sides[0]);
    out.emplace_back(sides[0], sides[1]);
  }
  return out;
}

void weight_decay(NamedValues& values, OptimArguments& out) {
  values.number("weight_decay", ">= 0", out.weight_decay);
}

void sgd(NamedValues& values, OptimArguments& out) {
  weight_decay(values, out);
  values.number("momentum", ">= 0", out.momentum);
  values.number("dampening", ">= 0", out.dampening);
  values.flag("nesterov", out.nesterov);
  values.flag("maximize", out.maximize);
  if (out.nesterov && (out.momentum == 0 || out.dampening != 0))
    fail_key(kOptimArgs, "{}: nesterov needs a momentum above 0 and a dampening of 0", kOptimArgs);
}

void rmsprop(NamedValues& values, OptimArguments& out) {
  weight_decay(values, out);
  values.number("alpha", "[0, 1]", out.alpha);
  values.number("eps", ">= 0", out.eps);
  values.number("momentum", ">= 0", out.momentum);
  values.flag("centered", out.centered);
  values.flag("maximize", out.maximize);
}

// Reads bitsandbytes' RMSprop: its momentum does nothing and it has no centered form, so neither is accepted.
void rmsprop_of_bitsandbytes(NamedValues& values, OptimArguments& out) {
  weight_decay(values, out);
  values.number("alpha", "(0, 1)", out.alpha);
  values.number("eps", ">= 0", out.eps);
}

void ademamix(NamedValues& values, const Config& config, AdemamixArguments& out) {
  out.beta1 = config.get_double("adam_beta1");
  out.beta2 = config.get_double("adam_beta2");
  out.eps = config.get_double("adam_epsilon");
  for (const auto& [name, beta] :
       {std::pair("beta1", &out.beta1), std::pair("beta2", &out.beta2), std::pair("beta3", &out.beta3)})
    values.number(name, "[0, 1)", *beta);
  values.number("alpha", ">= 0", out.alpha);
  values.number("eps", ">= 0", out.eps);
  values.integer("t_alpha", ">= 0", out.t_alpha);
  values.integer("t_beta3", ">= 0", out.t_beta3);
  if (out.t_beta3 > 0 && (out.beta1 == 0 || out.beta3 == 0))
    fail_key(kOptimArgs, "{}: t_beta3 needs a beta1 and a beta3 above 0", kOptimArgs);
}

void adagrad(NamedValues& values, OptimArguments& out) {
  weight_decay(values, out);
  out.eps = 1e-10;
  values.number("lr_decay", ">= 0", out.lr_decay);
  values.number("eps", ">= 0", out.eps);
  values.number("initial_accumulator_value", ">= 0", out.initial_accumulator_value);
  values.flag("maximize", out.maximize);
}

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
  if (!config.method().evaluates) {
    fail_key(
        "lr_scheduler_type",
        "lr_scheduler_type: reduce_lr_on_plateau is refused with method {}, which evaluates nothing: give "
        "another",
        config.method().name);
  }
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

const OptimName& optim_named(std::string_view key, std::string_view name) {
  for (const Missing& missing : kMissing) {
    if (missing.name != name) continue;
    fail_key(key, "{}: {} is refused: {}; the nearest is {}", key, name, missing.why, missing.nearest);
  }
  const auto* const found =
      std::find_if(std::begin(kNames), std::end(kNames), [&](const OptimName& n) { return n.name == name; });
  if (found == std::end(kNames)) fail(Status::internal, "optim {} is not in any table", name);
  return *found;
}

const OptimName& optim(const Config& config) {
  std::string name = config.get("optim");
  if (config.get_bool("adafactor")) {
    if (config.is_set("optim") && name != "adafactor")
      fail_key("adafactor", "adafactor: true and optim: {} are both set: give optim alone", name);
    name = "adafactor";
  }
  return optim_named("optim", name);
}

OptimArguments optim_arguments(const Config& config) {
  OptimArguments out;
  const OptimName& chosen = optim(config);
  NamedValues values(kOptimArgs, fmt::format("optim {}", chosen.name),
                     pairs(config.get_text(kOptimArgs).value_or("")));
  switch (chosen.optim) {
    case Optim::sgd:
      sgd(values, out);
      break;
    case Optim::rmsprop:
      chosen.states == OptimStates::as_weights ? rmsprop(values, out) : rmsprop_of_bitsandbytes(values, out);
      break;
    case Optim::adagrad:
      adagrad(values, out);
      break;
    case Optim::ademamix:
      ademamix(values, config, out.ademamix);
      break;
    case Optim::adamw:
    case Optim::adafactor:
    case Optim::lion:
      break;
  }
  values.finish();
  return out;
}

Scheduler scheduler(const Config& config) {
  const std::vector<std::string_view> names = choices(*find_option("lr_scheduler_type"));
  return static_cast<Scheduler>(std::ranges::find(names, config.get("lr_scheduler_type")) - names.begin());
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
