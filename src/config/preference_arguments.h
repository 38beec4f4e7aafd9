// The typed view of the options that DPO, Reward and KTO add to a training run. Names are TRL's.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/config.h"

namespace trl::config {

struct PreferenceArguments {
  std::vector<std::pair<std::string, double>> losses;  // loss_type and loss_weights
  bool exchanges = false;                              // each prompt also gets another row's completion
  double beta = 0.1;
  double label_smoothing = 0;
  std::string f_divergence_type = "reverse_kl";
  double f_alpha_divergence_coef = 0.5;
  double discopop_tau = 0.05;
  bool use_weighting = false;
  std::optional<double> ld_alpha;
  double desirable_weight = 1, undesirable_weight = 1;  // KTO
  double center_rewards_coefficient = 0;                // Reward; 0: they are not centered
  std::string reference;                                // ref_model_name_or_path; empty: the initial model
  bool continues_adapter = false;                       // adapter_name_or_path is trained on
  bool sync_ref_model = false;
  double ref_model_mixup_alpha = 0.6;
  int64_t ref_model_sync_steps = 512;
  bool precompute_ref_log_probs = false;
  std::optional<int64_t> precompute_ref_batch_size;  // none: the batch size of the rows
  std::string ref_logprobs_cache_dir;
};
// Returns whether its method and loss_type exchange completions (MethodRow::exchanging_loss).
bool exchanges_completions(const Config& config);

// Reads and cross-checks the arguments of the configuration's method; throws Error(invalid_config).
PreferenceArguments preference_arguments(const Config& config);

}  // namespace trl::config
