#include "config/online/online_arguments.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/text/number.h"
#include "config/generation/trainer_generation.h"
#include "config/model_options.h"
#include "config/online/parts.h"
#include "config/sizes_and_paths.h"
#include "config/table/option_value.h"

namespace trl::config {

namespace {

// Says whether both name the same file, through links too.
bool same_file(const std::string& a, const std::string& b) {
  std::error_code missing;
  return a == b || std::filesystem::equivalent(a, b, missing);
}

void read_rollouts(const Config& config, OnlineArguments& out) {
  // trainer_generation() refuses a null length
  out.max_new_tokens =
      trainer_generation(config, Completions::of_training).get_int("generate.max_new_tokens");
  out.max_completion_length = config.get_int(length_key(config));
  if (config.method().tempers) out.loss_temperature = trainer_temperature(config);
  out.reward_by_group = config.has("reward_by_group") && config.get_bool("reward_by_group");
  out.resample_zero_std = config.has("resample_zero_std") && config.get_bool("resample_zero_std");
  out.skip_silent_rows = config.has("skip_silent_rows") && config.get_bool("skip_silent_rows");
  out.shuffle_rollouts = config.has("shuffle_rollouts") && config.get_bool("shuffle_rollouts");
  out.record_rollouts = directory(config, "record_rollouts", "");
  out.replay_rollouts = directory(config, "replay_rollouts", "");
  if (!out.record_rollouts.empty() && same_file(out.record_rollouts, out.replay_rollouts)) {
    fail_key("record_rollouts", "record_rollouts: {} is the file of replay_rollouts: give another",
             shown(out.record_rollouts));
  }
  if (const auto variables = config.get_text("chat_template_kwargs")) out.chat_template_kwargs = *variables;
}

// Reads beta, which in some methods is a list by epoch.
void read_beta(const Config& config, OnlineArguments& out) {
  if (!config.has("beta")) return;
  out.betas = finite_numbers(config, "beta");
  out.beta = out.betas.front();
}

void read_distillation(const Config& config, OnlineArguments& out) {
  out.teacher = config.get_text("teacher_model_name_or_path").value_or("");
  out.teacher_dtype = teacher_dtype(config);
  if (!config.has("lmbda")) return;
  out.lmbda = config.get_double("lmbda");
  out.seq_kd = config.get_bool("seq_kd");
}

void read_values(const Config& config, OnlineArguments& out) {
  out.total_episodes = config.get_optional_int("total_episodes");
  out.local_rollout_forward_batch_size = config.get_int("local_rollout_forward_batch_size");
  constexpr const char* kSamples = "num_sample_generations";
  out.num_sample_generations = config.has(kSamples) ? config.get_int(kSamples) : 0;
  out.stops_at_eos = config.get_text("stop_token").has_value();
  out.stop_token_id = config.get_optional_int("stop_token_id");
  if (out.stops_at_eos && out.stop_token_id) {
    fail_key("stop_token_id", "stop_token_id: {} contradicts stop_token: eos: give one of them",
             *out.stop_token_id);
  }
  const std::optional<std::string> value_model = config.get_text("value_model_name_or_path");
  out.value_head_on_policy = config.get_bool("value_head_on_policy");
  if (out.value_head_on_policy && value_model) {
    fail_key(
        "value_head_on_policy",
        "value_head_on_policy: true puts the head on the trained model, and value_model_name_or_path: {} "
        "names another: give one of them",
        shown(*value_model));
  }
  if (!out.value_head_on_policy) out.value_model = value_model.value_or(out.reward_model);
  out.kl_coef = config.get_double("kl_coef");
  out.kl_estimator = word_of<KlEstimator>(config, "kl_estimator");
  out.cliprange = config.get_double("cliprange");
  out.vf_coef = config.get_double("vf_coef");
  out.cliprange_value = config.get_double("cliprange_value");
  out.gamma = config.get_double("gamma");
  out.lam = config.get_double("lam");
}

}  // namespace

int64_t OnlineArguments::longest_completion() const {
  return tools.empty() ? max_new_tokens : std::max(max_new_tokens, max_completion_length);
}

OnlineArguments online_arguments(const Config& config) {
  OnlineArguments out;
  static_cast<ReferenceArguments&>(out) = reference_arguments(config);
  if (!config.method().generates) return out;
  read_online_sizes(config, out);
  read_rollouts(config, out);
  read_online_rewards(config, out);
  read_online_tools(config, out);
  read_beta(config, out);
  read_online_policy(config, out);
  read_online_server(config, out);
  read_distillation(config, out);
  if (config.get("loss_type") == "ipo") out.pair_loss = PairLoss::ipo;
  // GKD cuts rows by it, and no completion.
  if (config.has("max_length") && !config.method().answers_of_rows)
    out.max_length = config.get_optional_int("max_length");
  read_values(config, out);
  // of PPO it says that there are evaluation rows, as in TRL's script
  const bool by_strategy = config.get("eval_strategy") != "no" && !config.method().episodes;
  if (by_strategy || config.get_bool("eval_on_start")) {
    const char* const key = by_strategy ? "eval_strategy" : "eval_on_start";
    if (!config.method().evaluates)
      fail_key(key, "{}: {} is refused with method {}, which has no loss of evaluation rows: leave it out",
               key, config.get(key), config.method().name);
    check_evaluation_size(out, config.get_int("per_device_eval_batch_size"));
    trainer_generation(config, Completions::of_evaluation);
  }
  return out;
}

void check_teacher(const Config& config) {
  constexpr std::string_view kKey = "teacher_model_name_or_path";
  if (!config.has(kKey) || config.get_text(kKey)) return;
  fail_key(kKey, "{}: {} needs a teacher: give a directory or a GGUF file", kKey, config.method().name);
}

}  // namespace trl::config
