// Lists the options that the weights of a run depend on, by effect: names with one meaning are one here.
#include <algorithm>
#include <map>

#include "base/text/number.h"
#include "config/model_dtype.h"
#include "config/training_arguments.h"

namespace trl::config {

namespace {

std::string text(double value) { return base::format_double(value); }
std::string text(bool value) { return value ? "true" : "false"; }

std::string optim_name(const Config& config) {
  const OptimName& name = optim(config);
  return std::string(name.canonical.empty() ? name.name : name.canonical);
}

// Returns the effect of options that have several names, or that another option changes.
std::map<std::string_view, std::string> effects(const Config& config, const TrainingArguments& a) {
  return {{"dtype", model_dtype(config)},
          {"max_steps", std::to_string(a.max_steps)},
          {"optim", optim_name(config)},
          {"warmup_steps", text(a.warmup_steps)},
          {"neftune_noise_alpha", text(a.neftune_noise_alpha)},
          {"bf16", text(a.bf16)},
          {"fused_kernels", a.fused_kernels == FusedKernels::off ? "off" : "auto"},
          // all names of the built-in one are one
          {"attn_implementation", a.attention.plugin.empty() ? "built-in" : a.attention.name},
          {"load_best_model_at_end", text(a.load_best_model_at_end)}};
}

// Says whether the option's effect is that of another one, in effects(), or on evaluations only.
bool is_left_out(std::string_view name) {
  constexpr std::string_view kOthers[] = {
      "adafactor", "warmup_ratio",      "mixed_precision", "use_liger_kernel",
      "streaming", "model_init_kwargs", "eval_packing",    "per_device_eval_batch_size"};
  return std::find(std::begin(kOthers), std::end(kOthers), name) != std::end(kOthers);
}

// Says whether other options leave this one without an effect.
bool is_idle(std::string_view name, const Config& config, const TrainingArguments& a) {
  const bool adam = a.optim == Optim::adamw || a.optim == Optim::ademamix;
  if (name == "num_train_epochs") return a.max_steps >= 0;
  if (name == "adam_epsilon") return !adam;
  if (name.starts_with("adam_beta")) return !adam && a.optim != Optim::lion;
  if (name == "optim_8bit_embeddings") return a.optim_states != OptimStates::eight_bit;
  return (is_of_adapters(name) || name == "use_peft" || name == "peft_config" || name == "frozen_compute") &&
         !config.get_bool("use_peft");
}

}  // namespace

std::vector<std::pair<std::string, std::string>> result_options(const Config& config,
                                                                const TrainingArguments& a) {
  std::vector<std::pair<std::string, std::string>> out;
  const auto others = effects(config, a);
  for (const Option& option : options()) {
    if (option.affects == Affects::source || option.affects == Affects::nothing) continue;
    if (!is_of(option, config.method().name) || is_left_out(option.name) || is_idle(option.name, config, a))
      continue;
    const auto other = others.find(option.name);
    out.emplace_back(option.name, other != others.end() ? other->second : config.get(option.name));
  }
  if (a.load_best_model_at_end) {
    out.emplace_back("metric_for_best_model", a.metric_for_best_model);
    out.emplace_back("greater_is_better", text(a.greater_is_better));
  }
  // The evaluation, if it decides on the learning rate or on the model that remains at the end.
  if (a.load_best_model_at_end || a.lr_scheduler_type == Scheduler::reduce_lr_on_plateau) {
    for (const char* name : {"eval_strategy", "eval_steps", "eval_delay"})
      out.emplace_back(name, config.get(name));
  }
  return out;
}

}  // namespace trl::config
