// The loss of GRPO and RLOO: ratios, entropy, and the correction for the difference to generation.
#include "base/error.h"
#include "config/online/parts.h"
#include "config/table/option_value.h"

namespace trl::config {

namespace {

void read_entropy(const Config& config, OnlineArguments& out) {
  out.top_entropy_quantile = config.get_double("top_entropy_quantile");
  out.entropy_coef = config.get_double("entropy_coef");
  out.use_adaptive_entropy = config.get_bool("use_adaptive_entropy");
  out.entropy_coef_min = config.get_double("entropy_coef_min");
  out.entropy_coef_max = config.get_double("entropy_coef_max");
  out.entropy_coef_delta = config.get_double("entropy_coef_delta");
  out.entropy_target = config.get_double("entropy_target");
  if (out.entropy_coef_min > out.entropy_coef_max) {
    fail_key("entropy_coef_min", "entropy_coef_min: {} is above entropy_coef_max: {}: give a smaller one",
             config.get("entropy_coef_min"), config.get("entropy_coef_max"));
  }
}

void read_correction(const Config& config, OnlineArguments& out) {
  constexpr const char *kMode = "vllm_importance_sampling_mode", *kMax = "vllm_importance_sampling_clip_max",
                       *kMin = "vllm_importance_sampling_clip_min";
  constexpr const char* kCorrects = "vllm_importance_sampling_correction";
  const bool corrects = config.get_bool(kCorrects);
  out.use_vllm = config.has("use_vllm") && config.get_bool("use_vllm");
  out.corrects_sampling = corrects && out.use_vllm && config.has(kCorrects);
  out.correction_mode = word_of<CorrectionMode>(config, kMode);
  out.correction_max = config.get_optional_double(kMax);
  out.correction_min = config.get_optional_double(kMin);
  if (out.correction_max && out.correction_min && *out.correction_min >= *out.correction_max) {
    fail_key(kMin, "{}: {} is not below {}: {}: give a smaller one", kMin, config.get(kMin), kMax,
             config.get(kMax));
  }
  if (corrects && !out.correction_max && !out.correction_min && config.get(kMode).ends_with("truncate")) {
    fail_key(kMode, "{}: {} has no bound to truncate to: give {} or {}, or another mode", kMode,
             config.get(kMode), kMax, kMin);
  }
  if (out.policy_loss == PolicyLoss::vespo && out.corrects_sampling &&
      config.get(kMode).starts_with("sequence")) {
    fail_key(kMode,
             "{}: {} is refused with loss_type vespo, which weighs sequences itself: give token_truncate or "
             "token_mask",
             kMode, config.get(kMode));
  }
}

}  // namespace

void read_online_policy(const Config& config, OnlineArguments& out) {
  const bool by_token = config.has("importance_sampling_level");
  if (by_token) {
    out.policy_loss = word_of<PolicyLoss>(config, "loss_type");
  }
  out.epsilon = config.get_double("epsilon");
  out.epsilon_high = config.get_optional_double("epsilon_high").value_or(out.epsilon);
  out.delta = config.get_optional_double("delta");
  out.importance_sampling_level = word_of<RatioLevel>(config, "importance_sampling_level");
  out.mask_truncated_completions = config.get_bool("mask_truncated_completions");
  out.use_bias_correction_kl = config.get_bool("use_bias_correction_kl");
  out.cast_lm_head_to_fp32 = config.get_bool("cast_lm_head_to_fp32");
  out.off_policy_mask_threshold = config.get_optional_double("off_policy_mask_threshold");
  out.sapo_temperature_neg = config.get_double("sapo_temperature_neg");
  out.sapo_temperature_pos = config.get_double("sapo_temperature_pos");
  out.vespo_k_pos = config.get_double("vespo_k_pos");
  out.vespo_lambda_pos = config.get_double("vespo_lambda_pos");
  out.vespo_k_neg = config.get_double("vespo_k_neg");
  out.vespo_lambda_neg = config.get_double("vespo_lambda_neg");
  read_entropy(config, out);
  read_correction(config, out);
  // A loss by tokens takes its own values for old ones in the update that follows a generation; one by
  // sequences needs them for its rewards.
  const bool one_update = config.get_int("gradient_accumulation_steps") % out.repeat_count == 0;
  out.computes_old_logprobs = by_token ? !one_update || out.corrects_sampling : config.has("num_iterations");
}

}  // namespace trl::config
