// Config -> typed structs, with the checks that concern more than one key.
#include "config/training_arguments.h"

#include <cmath>

#include "base/error.h"
#include "base/number.h"
#include "config/data_arguments.h"
#include "config/value.h"

namespace trl::config {

namespace {

Strategy strategy(const Config& config, std::string_view key) {
  const std::string value = config.get(key);
  if (value == "best") return Strategy::best;
  return value == "no" ? Strategy::no : value == "epoch" ? Strategy::epoch : Strategy::steps;
}

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
             "auto, or "
             "use_liger_kernel: false");
  }
  if (demanded || value == "on") return FusedKernels::on;
  return value == "off" ? FusedKernels::off : FusedKernels::automatic;
}

// Steps are a whole number, or a share of all steps.
double steps(std::string_view key, double value) {
  if (value >= 1 && std::trunc(value) != value) {
    fail_key(key, "{}: {} is not accepted; give an integer, or a share of all steps below 1", key,
             shown(base::format_double(value)));
  }
  return value;
}

std::string output_dir(const Config& config) {
  const std::string value = config.get_text("output_dir").value_or("trainer_output");
  if (value == "~" || value.starts_with("~/")) {
    fail_key("output_dir", "output_dir: {} is not accepted: '~' is not expanded, give the whole path",
             shown(value));
  }
  return value;
}

void read_optimizer(const Config& config, TrainingArguments& out) {
  out.optim = optim(config);
  out.optim_args = optim_arguments(config);
  out.learning_rate = config.get_double("learning_rate");
  out.weight_decay = config.get_double("weight_decay");
  out.adam_beta1 = config.get_double("adam_beta1");
  out.adam_beta2 = config.get_double("adam_beta2");
  out.adam_epsilon = config.get_double("adam_epsilon");
  out.max_grad_norm = config.get_double("max_grad_norm");
  out.stochastic_rounding = config.get_bool("stochastic_rounding");
  if (out.stochastic_rounding && config.get("dtype") == "float32") refuse_stochastic_rounding();
  out.lr_scheduler_type = scheduler(config);
  out.lr_scheduler_kwargs = schedule_arguments(config);
  out.warmup_steps = config.get_double("warmup_steps");
  if (out.warmup_steps == 0) out.warmup_steps = config.get_double("warmup_ratio");
}

void read_loss(const Config& config, TrainingArguments& out) {
  out.dft = config.get("loss_type") == "dft";
  out.label_smoothing_factor = config.get_double("label_smoothing_factor");
  out.neftune_noise_alpha = config.get_optional_double("neftune_noise_alpha").value_or(0);
  if (out.dft && out.label_smoothing_factor > 0) {
    fail_key(
        "label_smoothing_factor",
        "label_smoothing_factor: {} belongs to loss_type nll: give it with loss_type: nll, or 0 with dft",
        config.get("label_smoothing_factor"));
  }
}

void read_schedule(const Config& config, TrainingArguments& out) {
  out.logging_strategy = strategy(config, "logging_strategy");
  out.logging_steps = config.get_double("logging_steps");
  if (out.logging_strategy == Strategy::steps) steps("logging_steps", out.logging_steps);
  out.logging_first_step = config.get_bool("logging_first_step");
  out.logging_nan_inf_filter = config.get_bool("logging_nan_inf_filter");
  out.eval_strategy = strategy(config, "eval_strategy");
  out.eval_steps = config.get_optional_double("eval_steps");
  if (out.eval_steps == 0.0) out.eval_steps.reset();
  if (out.eval_strategy == Strategy::steps) {
    steps(out.eval_steps ? "eval_steps" : "logging_steps", out.eval_steps.value_or(out.logging_steps));
  }
  out.eval_delay = config.get_double("eval_delay");
  out.eval_on_start = config.get_bool("eval_on_start");
  out.prediction_loss_only = config.get_bool("prediction_loss_only");
  out.report_to = config.get_list("report_to");
  out.logging_dir = config.get_text("logging_dir").value_or("");
  out.profile_parts = config.get_bool("profile_parts");
  if (out.profile_parts && out.fused_kernels == FusedKernels::off) {
    fail_key(
        "profile_parts",
        "profile_parts: true contradicts fused_kernels: off, where backward is PyTorch's own and shows no "
        "parts: give fused_kernels: auto, or profile_parts: false");
  }
  out.on_nonfinite = on_nonfinite(config);
}

// Trainer's rule: what is loaded at the end must have been saved whenever it was evaluated.
void check_best_model(const Config& config, const TrainingArguments& out) {
  constexpr std::string_view kKey = "load_best_model_at_end";
  if (out.save_strategy == Strategy::best) {
    if (out.metric_for_best_model.empty()) {
      fail_key("metric_for_best_model", "save_strategy best needs metric_for_best_model, for example loss");
    }
    if (out.eval_strategy == Strategy::no) {
      fail_key("eval_strategy", "save_strategy best needs an eval_strategy: steps or epoch");
    }
    return;
  }
  if (!out.load_best_model_at_end) return;
  if (out.eval_strategy != out.save_strategy || out.eval_strategy == Strategy::no) {
    fail_key(kKey,
             "{} needs the same eval_strategy and save_strategy, steps or epoch (or save_strategy best); "
             "eval_strategy is {}, save_strategy is {}",
             kKey, config.get("eval_strategy"), config.get("save_strategy"));
  }
  if (out.eval_strategy != Strategy::steps) return;
  const double eval_steps = out.eval_steps.value_or(out.logging_steps);
  const bool ratios = eval_steps < 1 && out.save_steps < 1;
  constexpr double kMillion = 1e6;  // ratios are compared as Trainer does, to six digits
  const double rest =
      ratios ? std::fmod(std::round(out.save_steps * kMillion), std::round(eval_steps * kMillion))
             : std::fmod(out.save_steps, eval_steps);
  if (rest != 0 || (!ratios && (eval_steps < 1 || out.save_steps < 1))) {
    fail_key(kKey, "{} needs save_steps to be a multiple of eval_steps; save_steps is {}, eval_steps is {}",
             kKey, base::format_double(out.save_steps), base::format_double(eval_steps));
  }
}

void read_checkpoints(const Config& config, TrainingArguments& out) {
  out.save_strategy = strategy(config, "save_strategy");
  out.save_steps = config.get_double("save_steps");
  if (out.save_strategy == Strategy::steps) steps("save_steps", out.save_steps);
  out.save_total_limit = config.get_optional_int("save_total_limit");
  if (out.save_total_limit && *out.save_total_limit <= 0) out.save_total_limit.reset();
  out.save_only_model = config.get_bool("save_only_model");
  out.load_best_model_at_end = config.get_bool("load_best_model_at_end");
  out.metric_for_best_model = config.get_text("metric_for_best_model").value_or("");
  const bool compares =
      out.load_best_model_at_end || out.lr_scheduler_type == Scheduler::reduce_lr_on_plateau;
  if (compares && out.metric_for_best_model.empty()) out.metric_for_best_model = "loss";
  out.greater_is_better =
      config.get_optional_bool("greater_is_better").value_or(!out.metric_for_best_model.ends_with("loss"));
  if (!out.metric_for_best_model.empty() && !out.metric_for_best_model.starts_with("eval_"))
    out.metric_for_best_model.insert(0, "eval_");
  out.resume_from_checkpoint = config.get_text("resume_from_checkpoint");
  if (out.resume_from_checkpoint == "True") out.resume_from_checkpoint = "true";
  out.ignore_data_skip = config.get_bool("ignore_data_skip");
  out.overwrite_output_dir = config.get_bool("overwrite_output_dir");
  check_best_model(config, out);
}

}  // namespace

void refuse_evaluation(const TrainingArguments& arguments) {
  if (arguments.eval_strategy != Strategy::no) {
    fail_key("eval_strategy",
             "eval_strategy: {} needs an evaluation dataset (eval_dataset_name); accepted without one: no",
             arguments.eval_strategy == Strategy::steps ? "steps" : "epoch");
  }
  if (arguments.eval_on_start)
    fail_key("eval_on_start", "eval_on_start needs an evaluation dataset (eval_dataset_name)");
}

void refuse_stochastic_rounding() {
  fail_key("stochastic_rounding",
           "stochastic_rounding: true is for bfloat16 weights, and the weights are float32; give dtype: "
           "bfloat16, or leave it off");
}

TrainingArguments training_arguments(const Config& config) {
  TrainingArguments out;
  out.method = config.get("method");
  out.output_dir = output_dir(config);
  out.per_device_train_batch_size = config.get_int("per_device_train_batch_size");
  out.per_device_eval_batch_size = config.get_int("per_device_eval_batch_size");
  out.gradient_accumulation_steps = config.get_int("gradient_accumulation_steps");
  out.num_train_epochs = config.get_double("num_train_epochs");
  out.max_steps = config.get_int("max_steps");
  if (out.max_steps == 0) out.max_steps = -1;
  out.seed = config.get_int("seed");
  out.data_seed = config.get_optional_int("data_seed");
  out.bf16 = config.get_optional_bool("bf16").value_or(true) || config.get("mixed_precision") == "bf16";
  out.gradient_checkpointing = config.get_optional_bool("activation_checkpointing")
                                   .value_or(config.get_bool("gradient_checkpointing"));
  out.attention = attention_arguments(config);
  out.fused_kernels = fused_kernels(config);
  read_optimizer(config, out);
  read_loss(config, out);
  read_schedule(config, out);
  read_checkpoints(config, out);
  return out;
}

std::vector<std::string> run_notes(const Config& config) {
  std::vector<std::string> notes;
  const SftDataArguments data = sft_data_arguments(config);
  if (data.padding_free && data.packing == Packing::wrapped) {
    notes.push_back(
        "padding_free with packing_strategy wrapped: the documents of a packed row still see each other, as "
        "in TRL");
  }
  if (data.padding_free && data.packing == Packing::none &&
      config.get_int("per_device_train_batch_size") == 1) {
    notes.push_back("padding_free with per_device_train_batch_size 1: there is no padding to be free of");
  }
  if (data.streaming && data.sampling == Sampling::random) {
    notes.push_back("dataset_streaming: rows are trained on in the order in which they are read");
  }
  if (const std::optional<double> decay = optim_arguments(config).weight_decay) {
    notes.push_back(fmt::format(
        "optim_args: weight_decay {} has no effect, as in Trainer: the weights decay by the option "
        "weight_decay, which is {}",
        base::format_double(*decay), config.get("weight_decay")));
  }
  if (config.get("save_strategy") == "no")
    notes.push_back("save_strategy no: no checkpoints are written, only the final model");
  if (config.get("loss_type") == "chunked_nll")
    notes.push_back("loss_type chunked_nll: it is called nll now");
  if (config.get("truncation_mode") == "keep_end") {
    notes.push_back("truncation_mode keep_end: it is deprecated in TRL and goes with its version 2");
  }
  return notes;
}

}  // namespace trl::config
