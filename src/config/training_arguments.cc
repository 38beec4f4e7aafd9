// Reads TrainingArguments from a Config, with the checks that concern more than one key.
#include "config/training_arguments.h"

#include "base/error.h"
#include "config/sizes_and_paths.h"
#include "config/table/option_value.h"

namespace trl::config {

namespace {

OnNonfinite on_nonfinite(const Config& config) {
  const std::string value = config.get("on_nonfinite");
  return value == "skip"       ? OnNonfinite::skip
         : value == "continue" ? OnNonfinite::proceed
                               : OnNonfinite::error;
}

FusedKernels fused_kernels(const Config& config) {
  const std::string value = config.get("fused_kernels");
  const bool demanded = config.get_bool("use_liger_kernel");
  if (demanded && value == "off") {
    fail_key("use_liger_kernel",
             "use_liger_kernel: true demands fused kernels, and fused_kernels is off: give fused_kernels: "
             "auto, or use_liger_kernel: false");
  }
  if (demanded || value == "on") return FusedKernels::on;
  return value == "off" ? FusedKernels::off : FusedKernels::automatic;
}

FrozenCompute frozen_compute(const Config& config) {
  if (config.get("frozen_compute") == "auto") return FrozenCompute::automatic;
  const auto refuse = [](const char* why) {
    fail_key("frozen_compute", "frozen_compute: int8 is refused, because {}", why);
  };
  if (!config.get_bool("use_peft"))
    refuse("without use_peft all weights are trained and none is frozen: give use_peft: true, or auto");
  if (quantization(config)) {
    refuse(
        "it would hold the quantised weights a second time, in 2 bytes each: give auto, or neither "
        "load_in_4bit nor load_in_8bit");
  }
  if (fused_kernels(config) == FusedKernels::off) {
    refuse(
        "fused_kernels is off, and its products are PyTorch's own: give fused_kernels: auto, or "
        "frozen_compute: auto");
  }
  return FrozenCompute::int8;
}

bool generation_exact(const Config& config, const TrainingArguments& out) {
  if (!config.get_bool("generation_exact")) return false;
  const auto refuse = [](const char* option, const char* instead) {
    fail_key("generation_exact",
             "generation_exact: true contradicts {}, because generation and training then have other sums: "
             "give {}, or generation_exact: false",
             option, instead);
  };
  if (out.fused_kernels == FusedKernels::off) refuse("fused_kernels: off", "fused_kernels: auto");
  if (!out.attention.plugin.empty()) refuse("the plug-in of attn_implementation", "the built-in attention");
  if (config.get_text("generation_dtype")) refuse("generation_dtype", "generation_dtype: null");
  if (config.get("kv_cache_dtype") == "int8") refuse("kv_cache_dtype: int8", "kv_cache_dtype: auto");
  return true;
}

// Checks the options that would change the states of frozen layers; the adapter decides whether any layers
// are frozen.
void check_frozen_layers(const Config& config, const TrainingArguments& out) {
  constexpr const char* kKey = "cache_frozen_layers";
  if (out.cache_frozen_layers.empty()) return;
  if (!config.get_bool("use_peft")) {
    fail_key(kKey,
             "cache_frozen_layers keeps what frozen layers compute, and with use_peft: false all layers are "
             "trained: give use_peft: true and adapters on the upper layers alone, or leave it out");
  }
  if (out.neftune_noise_alpha != 0) {
    fail_key(kKey,
             "cache_frozen_layers contradicts neftune_noise_alpha: {}, whose noise makes the frozen layers' "
             "states different in each epoch: leave one of them out",
             config.get("neftune_noise_alpha"));
  }
  if (out.fused_kernels == FusedKernels::off || !out.attention.plugin.empty()) {
    fail_key(kKey,
             "cache_frozen_layers needs the fused kernels and the built-in attention, which give a row the "
             "same bits in every batch: leave out {}",
             out.attention.plugin.empty() ? "fused_kernels: off" : "the plug-in of attn_implementation");
  }
}

// Refuses options that need something which cannot be known or done once the first weights are updated.
void check_backward_step(const Config& config, const TrainingArguments& out) {
  constexpr const char* kKey = "optimizer_in_backward";
  if (!out.optimizer_in_backward) return;
  if (config.method().episodes) {
    fail_key(
        kKey,
        "optimizer_in_backward: true updates each weight in one backward, and method {} trains two models "
        "with a backward each: leave it out",
        config.method().name);
  }
  if (out.gradient_accumulation_steps > 1) {
    fail_key(kKey,
             "optimizer_in_backward: true updates each weight in the backward of one micro-batch, so "
             "gradient_accumulation_steps: {} contradicts it: give gradient_accumulation_steps: 1",
             out.gradient_accumulation_steps);
  }
  if (out.max_tokens_per_pass) {
    fail_key("max_tokens_per_pass",
             "max_tokens_per_pass: {} is refused, because optimizer_in_backward: true updates each weight in "
             "one backward of the whole micro-batch: leave one of them out, or give a smaller "
             "per_device_train_batch_size",
             *out.max_tokens_per_pass);
  }
  if (out.max_grad_norm > 0 && !out.clip_by_previous_norm) {
    fail_key(kKey,
             "optimizer_in_backward: true updates weights before the norm of all gradients is known, so "
             "max_grad_norm: {} cannot be applied: give max_grad_norm: 0 (no clipping), or "
             "clip_by_previous_norm: true (clips by the norm of the step before)",
             config.get("max_grad_norm"));
  }
  if (out.on_nonfinite == OnNonfinite::skip) {
    fail_key(kKey,
             "optimizer_in_backward: true updates weights before all gradients are seen, so on_nonfinite: "
             "skip cannot leave the step out: give on_nonfinite: error or continue");
  }
}

void read_stepping(const Config& config, TrainingArguments& out) {
  const std::string type = config.get("gradient_dtype");
  if (type != "auto") out.gradient_dtype = type == "float32" ? GradientType::float32 : GradientType::bfloat16;
  out.optimizer_in_backward = config.get_bool("optimizer_in_backward");
  out.max_tokens_per_pass = config.get_optional_int("max_tokens_per_pass");
  out.prefix_window = config.get_text("share_prefix_window").has_value();
  const std::string share = config.get("share_prefix");
  if (share != "auto") out.share_prefix = share == "true" ? SharePrefix::always : SharePrefix::never;
  out.clip_by_previous_norm = config.get_bool("clip_by_previous_norm");
  if (out.clip_by_previous_norm && out.max_grad_norm <= 0) {
    fail_key("clip_by_previous_norm",
             "clip_by_previous_norm: true has nothing to clip by with max_grad_norm: {}: give a positive "
             "max_grad_norm, or leave it out",
             config.get("max_grad_norm"));
  }
  check_backward_step(config, out);
}

void read_optimizer(const Config& config, TrainingArguments& out) {
  const OptimName& name = optim(config);
  out.optim = name.optim;
  out.optim_states = name.states;
  out.optim_8bit_embeddings = config.get_bool("optim_8bit_embeddings");
  if (out.optim_8bit_embeddings && name.states != OptimStates::eight_bit) {
    fail_key("optim_8bit_embeddings",
             "optim_8bit_embeddings: true is for 8-bit states, and optim {} has none: give adamw_8bit, "
             "ademamix_8bit, lion_8bit or rmsprop_bnb_8bit, or leave it out",
             name.name);
  }
  if (name.paged) out.optim_directory = directory(config, "offload_dir", out.output_dir);
  out.optim_args = optim_arguments(config);
  out.learning_rate = config.get_double("learning_rate");
  out.weight_decay = config.get_double("weight_decay");
  out.adam_beta1 = config.get_double("adam_beta1");
  out.adam_beta2 = config.get_double("adam_beta2");
  out.adam_epsilon = config.get_double("adam_epsilon");
  out.max_grad_norm = config.get_double("max_grad_norm");
  out.stochastic_rounding = config.get_bool("stochastic_rounding");
  const std::string dtype = model_dtype(config);
  if (out.stochastic_rounding && dtype == "float32") refuse_stochastic_rounding();
  out.lr_scheduler_type = scheduler(config);
  out.lr_scheduler_kwargs = schedule_arguments(config);
  out.warmup_steps = config.get_double("warmup_steps");
  if (out.warmup_steps == 0) out.warmup_steps = config.get_double("warmup_ratio");
}

void read_loss(const Config& config, TrainingArguments& out) {
  out.dft = config.get("loss_type") == "dft";
  out.disable_dropout = config.has("disable_dropout") && config.get_bool("disable_dropout");
  out.preference = preference_arguments(config);
  out.online = online_arguments(config);
  out.preference.ref_logprobs_cache_dir = directory(config, "ref_logprobs_cache_dir", out.output_dir);
  out.label_smoothing_factor = config.get_double("label_smoothing_factor");
  const bool routers = config.has("router_aux_loss_coef");
  out.router_aux_loss_coef = routers ? config.get_optional_double("router_aux_loss_coef") : 0;
  out.neftune_noise_alpha = config.get_optional_double("neftune_noise_alpha").value_or(0);
  if (out.dft && out.label_smoothing_factor > 0) {
    fail_key(
        "label_smoothing_factor",
        "label_smoothing_factor: {} belongs to loss_type nll: give it with loss_type: nll, or 0 with dft",
        config.get("label_smoothing_factor"));
  }
}

constinit thread_local int64_t read_so_far = 0;

}  // namespace

void refuse_stochastic_rounding() {
  fail_key("stochastic_rounding",
           "stochastic_rounding: true is for bfloat16 weights, and the weights are float32; give dtype: "
           "bfloat16, or leave it out");
}

int64_t times_read() noexcept { return read_so_far; }

bool computes_in_bf16(const Config& config) {
  return config.get_optional_bool("bf16").value_or(true) || config.get("mixed_precision") == "bf16";
}

bool schedule_needs_length(const TrainingArguments& arguments) {
  switch (arguments.lr_scheduler_type) {
    case Scheduler::constant:
    case Scheduler::reduce_lr_on_plateau:
      return false;
    case Scheduler::constant_with_warmup:
    case Scheduler::inverse_sqrt:
      return arguments.warmup_steps > 0 && arguments.warmup_steps < 1;
    default:
      return true;
  }
}

TrainingArguments training_arguments(const Config& config) {
  ++read_so_far;
  config.check_method();
  TrainingArguments out;
  out.method = &config.method();
  out.output_dir = directory(config, "output_dir", "trainer_output");
  out.per_device_train_batch_size = config.get_int("per_device_train_batch_size");
  out.per_device_eval_batch_size = config.get_int("per_device_eval_batch_size");
  out.dataloader_drop_last = config.get_bool("dataloader_drop_last");
  out.gradient_accumulation_steps = config.get_int("gradient_accumulation_steps");
  out.num_train_epochs = config.get_double("num_train_epochs");
  out.max_steps = config.get_int("max_steps");
  if (out.max_steps == 0) out.max_steps = -1;
  out.seed = config.get_int("seed");
  out.data_seed = config.get_optional_int("data_seed");
  out.bf16 = computes_in_bf16(config);
  out.recompute = recompute(config);
  out.offload = activation_offload(config);
  out.attention = attention_arguments(config);
  out.fused_kernels = fused_kernels(config);
  out.frozen_compute = frozen_compute(config);
  out.generation_exact = generation_exact(config, out);
  out.profile_parts = config.get_bool("profile_parts");
  if (out.profile_parts && out.fused_kernels == FusedKernels::off) {
    fail_key("profile_parts",
             "profile_parts: true contradicts fused_kernels: off, where backward is PyTorch's own and shows "
             "no parts: give fused_kernels: auto, or profile_parts: false");
  }
  out.on_nonfinite = on_nonfinite(config);
  if (const Quantization form = quantization(config); form && !config.get_bool("use_peft")) {
    const char* const key = form.form == WeightForm::int8 ? "load_in_8bit" : "load_in_4bit";
    fail_key(key,
             "{}: true: quantised weights cannot be trained, only adapters on top of them; give use_peft: "
             "true, or {}: false",
             key, key);
  }
  read_optimizer(config, out);
  read_stepping(config, out);
  read_loss(config, out);
  out.cache_frozen_layers = directory(config, "cache_frozen_layers", "");
  out.cache_frozen_layers_zstd = config.get_bool("cache_frozen_layers_zstd");
  check_frozen_layers(config, out);
  read_events(config, out);
  out.makes_offload_dir = config.get_text("offload_dir") && !offload_directory(out).empty();
  return out;
}

std::string offload_directory(const TrainingArguments& arguments) {
  if (!arguments.optim_directory.empty()) return arguments.optim_directory;
  return arguments.offload ? arguments.offload->directory : std::string();
}

int64_t sequences_per_row(const TrainingArguments& arguments) {
  return arguments.method->sequences * (arguments.preference.exchanges ? 2 : 1);
}

int64_t micro_batches_per_step(const TrainingArguments& arguments) {
  return arguments.method->episodes ? arguments.online.repeat_count : arguments.gradient_accumulation_steps;
}

}  // namespace trl::config
