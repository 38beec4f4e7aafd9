// Lists the options that the weights of a run depend on, by effect: names with one meaning are one here.
#include "base/text/number.h"
#include "config/model_dtype.h"
#include "config/training_arguments.h"

namespace trl::config {

namespace {

using Options = std::vector<std::pair<std::string, std::string>>;

std::string text(double value) { return base::format_double(value); }
std::string text(bool value) { return value ? "true" : "false"; }

std::string optim_name(const Config& config) {
  const OptimName& name = optim(config);
  return std::string(name.canonical.empty() ? name.name : name.canonical);
}

void add(Options& out, const Config& config, std::initializer_list<const char*> names) {
  for (const char* name : names) out.emplace_back(name, config.get(name));
}

void add_optimizer(Options& out, const Config& config, const TrainingArguments& a) {
  out.emplace_back("optim", optim_name(config));
  add(out, config, {"optim_args", "learning_rate", "lr_scheduler_type", "lr_scheduler_kwargs"});
  out.emplace_back("warmup_steps", text(a.warmup_steps));
  add(out, config,
      {"weight_decay", "max_grad_norm", "clip_by_previous_norm", "gradient_dtype", "stochastic_rounding"});
  const bool adam = a.optim == Optim::adamw || a.optim == Optim::ademamix;
  if (adam || a.optim == Optim::lion) add(out, config, {"adam_beta1", "adam_beta2"});
  if (adam) add(out, config, {"adam_epsilon"});
  if (a.optim_states == OptimStates::eight_bit) add(out, config, {"optim_8bit_embeddings"});
}

// Adds the parts of preference and reward losses.
void add_preferences(Options& out, const Config& config) {
  for (const char* name :
       {"beta", "loss_weights", "label_smoothing", "f_divergence_type", "f_alpha_divergence_coef",
        "discopop_tau", "use_weighting", "ld_alpha", "desirable_weight", "undesirable_weight",
        "center_rewards_coefficient", "disable_dropout", "max_prompt_length", "max_completion_length",
        "ref_model_name_or_path", "sync_ref_model", "ref_model_mixup_alpha", "ref_model_sync_steps"})
    if (is_of(*find_option(name), config.method().name)) add(out, config, {name});
}

// Adds the evaluation if it decides on the learning rate or on the model that remains at the end.
void add_evaluation(Options& out, const Config& config, const TrainingArguments& a) {
  if (a.load_best_model_at_end) {
    out.emplace_back("metric_for_best_model", a.metric_for_best_model);
    out.emplace_back("greater_is_better", text(a.greater_is_better));
  }
  if (a.load_best_model_at_end || a.lr_scheduler_type == Scheduler::reduce_lr_on_plateau)
    add(out, config, {"eval_strategy", "eval_steps", "eval_delay"});
}

}  // namespace

Options result_options(const Config& config, const TrainingArguments& a) {
  Options out;
  add(out, config, {"method"});
  out.emplace_back("dtype", model_dtype(config));
  add(out, config,
      {"per_device_train_batch_size", "gradient_accumulation_steps", "max_tokens_per_pass", "share_prefix",
       "share_prefix_window"});
  out.emplace_back("max_steps", std::to_string(a.max_steps));
  if (a.max_steps < 0) add(out, config, {"num_train_epochs"});
  add_optimizer(out, config, a);
  add(out, config, {"loss_type", "label_smoothing_factor"});
  out.emplace_back("neftune_noise_alpha", text(a.neftune_noise_alpha));
  out.emplace_back("bf16", text(a.bf16));
  out.emplace_back("fused_kernels", a.fused_kernels == FusedKernels::off ? "off" : "auto");
  // all names of the built-in one are one
  out.emplace_back("attn_implementation", a.attention.plugin.empty() ? "built-in" : a.attention.name);
  add(out, config,
      {"seed", "data_seed", "train_sampling_strategy", "dataloader_drop_last", "dataset_streaming", "packing",
       "packing_strategy", "padding_free", "pad_to_multiple_of", "max_length"});
  out.emplace_back("load_best_model_at_end", text(a.load_best_model_at_end));
  add_evaluation(out, config, a);
  add_preferences(out, config);
  if (config.get_bool("use_peft")) {
    add(out, config,
        {"use_peft", "lora_r", "lora_alpha", "lora_dropout", "lora_target_modules", "lora_modules_to_save",
         "use_rslora", "use_dora", "peft_config", "autocast_adapter_dtype", "frozen_compute"});
  }
  return out;
}

}  // namespace trl::config
