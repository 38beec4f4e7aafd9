// When a run logs, evaluates, saves and writes samples.
#include "config/training_arguments.h"

#include <cmath>

#include "base/error.h"
#include "base/text/number.h"
#include "config/generation/generation_kwargs.h"
#include "config/sizes_and_paths.h"
#include "config/table/option_value.h"

namespace trl::config {

namespace {

Strategy strategy(const Config& config, std::string_view key) {
  const std::string value = config.get(key);
  if (value == "best") return Strategy::best;
  return value == "no" ? Strategy::no : value == "epoch" ? Strategy::epoch : Strategy::steps;
}

// Checks that steps are a whole number, or a share of all steps.
void check_steps(std::string_view key, double value) {
  if (value >= 1 && std::trunc(value) != value) {
    fail_key(key, "{}: {} is not accepted; give an integer, or a share of all steps below 1", key,
             shown(base::format_double(value)));
  }
}

TokensSeen tokens_seen(const Config& config) {
  const std::string value = config.get("include_num_input_tokens_seen");
  return value == "all" ? TokensSeen::all : value == "non_padding" ? TokensSeen::non_padding : TokensSeen::no;
}

void read_logging(const Config& config, TrainingArguments& out) {
  out.logging_strategy = strategy(config, "logging_strategy");
  out.logging_steps = config.get_double("logging_steps");
  if (out.logging_strategy == Strategy::steps) check_steps("logging_steps", out.logging_steps);
  out.logging_first_step = config.get_bool("logging_first_step");
  out.logging_nan_inf_filter = config.get_bool("logging_nan_inf_filter");
  if (config.method().evaluates) out.eval_strategy = strategy(config, "eval_strategy");
  out.eval_steps = config.get_optional_double("eval_steps");
  if (out.eval_steps == 0.0) out.eval_steps.reset();
  if (out.eval_strategy == Strategy::steps)
    check_steps(out.eval_steps ? "eval_steps" : "logging_steps", out.eval_steps.value_or(out.logging_steps));
  out.eval_delay = config.get_double("eval_delay");
  out.eval_on_start = config.get_bool("eval_on_start");
  out.prediction_loss_only = config.get_bool("prediction_loss_only");
  out.tokens_seen = tokens_seen(config);
  out.report_to = config.get_list("report_to");
  if (std::ranges::find(out.report_to, "all") != out.report_to.end())
    out.report_to = {"tensorboard", "csv", "jsonl", "html"};
  out.logging_dir = directory(config, "logging_dir", "");
}

// Checks Trainer's rule: the model that is loaded at the end must have been saved at each evaluation.
void check_best_model(const Config& config, const TrainingArguments& out) {
  constexpr std::string_view kKey = "load_best_model_at_end";
  const bool by_evaluation = out.save_strategy == Strategy::best;
  if ((by_evaluation || out.load_best_model_at_end) && !config.method().evaluates) {
    const std::string_view key = by_evaluation ? "save_strategy" : kKey;
    fail_key(key, "{}: {} is refused with method {}, which evaluates nothing: leave it out", key,
             config.get(key), config.method().name);
  }
  if (by_evaluation) {
    if (out.metric_for_best_model.empty())
      fail_key("metric_for_best_model", "save_strategy best needs metric_for_best_model, for example loss");
    if (out.eval_strategy == Strategy::no)
      fail_key("eval_strategy", "save_strategy best needs an eval_strategy: steps or epoch");
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
  if (out.save_strategy == Strategy::steps) check_steps("save_steps", out.save_steps);
  out.save_total_limit = config.get_optional_int("save_total_limit");
  if (out.save_total_limit && *out.save_total_limit <= 0) out.save_total_limit.reset();
  out.save_only_model = config.get_bool("save_only_model");
  out.save_format = config.get("save_format") == "gguf" ? SaveFormat::gguf : SaveFormat::safetensors;
  out.save_gguf_type = config.get("save_gguf_type");
  out.max_shard_bytes = byte_size(config, "max_shard_size");
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

int64_t update_count(double steps, int64_t max_steps) {
  constexpr double kNever = 9e18;
  const double count = steps < 1 ? std::ceil(static_cast<double>(max_steps) * steps) : steps;
  return static_cast<int64_t>(std::min(count, kNever));
}

SampleArguments sample_arguments(const Config& config) {
  constexpr std::string_view kKey = "sample_prompts";
  SampleArguments out;
  const std::optional<std::string> given = config.get_text(kKey);
  out.asked = given.has_value();
  if (!out.asked) return out;
  if (config.method().scores())
    fail_key(kKey, "{}: a reward model scores text and cannot complete it: leave {} out", kKey, kKey);
  out.prompts = base::parse_json(*given, kKey);
  if (out.prompts.is_string()) {
    out.file = out.prompts.get<std::string>();
    out.prompts = base::Json::array();
  } else if (out.prompts.empty()) {
    fail_key(kKey, "{}: the list is empty: give at least one prompt, or null", kKey);
  }
  out.steps = config.get_optional_int("sample_steps");
  out.evaluates = config.method().evaluates && config.get("eval_strategy") != "no";
  const Config generation = with_generation_kwargs(config);
  const char *const own = "sample_max_new_tokens", *const general = "generate.max_new_tokens";
  out.max_new_tokens =
      config.is_set(own) || !generation.is_set(general) ? config.get_int(own) : generation.get_int(general);
  return out;
}

void read_events(const Config& config, TrainingArguments& out) {
  read_logging(config, out);
  read_checkpoints(config, out);
}

}  // namespace trl::config
