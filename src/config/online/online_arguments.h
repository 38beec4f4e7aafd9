// The typed view of the options of trainers whose steps write completions: GRPO, RLOO, GKD, Distillation,
// Online DPO and PPO. Names are TRL's. A member that a trainer lacks keeps its value here.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/config.h"
#include "config/training/reference_arguments.h"

namespace trl::config {

enum class PolicyLoss : uint8_t { grpo, bnpo, dr_grpo, dapo, cispo, sapo, luspo, vespo };  // GRPO's loss_type
enum class PairLoss : uint8_t { sigmoid, ipo };                                            // Online DPO's
enum class RatioLevel : uint8_t { token, sequence };  // importance_sampling_level
enum class ScaleRewards : uint8_t { group, batch, none };
enum class Aggregation : uint8_t { sum_then_normalize, normalize_then_sum };  // multi_objective_aggregation
// vllm_importance_sampling_mode
enum class CorrectionMode : uint8_t { token_truncate, token_mask, sequence_truncate, sequence_mask };
enum class KlEstimator : uint8_t { k1, k3 };
enum class OnRewardError : uint8_t { error, none };  // none: the reward is none, as one that is not known

enum class ServerWeights : uint8_t { none, adapter, tensors };  // vllm_server_weights

// vllm_mode: server.
struct ServerArguments {
  std::string url;                              // without a slash at its end
  double timeout = 240;                         // seconds to wait for it
  ServerWeights weights = ServerWeights::none;  // none: it keeps its own
  std::string adapter_dir;                      // empty: in output_dir
  std::string api_key_file;                     // empty: none
};

struct OnlineArguments : ReferenceArguments {
  // Sizes. A row is a completion; a generation is all rows that are written at once.
  int64_t num_generations = 1;       // rows of a prompt; Online DPO: 2
  int64_t num_generations_eval = 1;  // in evaluation
  int64_t steps_per_generation = 1;  // micro-batches of a generation; PPO: none has rows of two mini-batches
  int64_t generation_batch_size = 8;
  int64_t prompts_per_generation = 8;  // generation_batch_size / num_generations
  int64_t num_iterations = 1;          // passes over a generation; PPO: num_ppo_epochs
  // Micro-batches that train on a generation: num_iterations * steps_per_generation
  int64_t repeat_count = 1;
  int64_t max_completion_length = 0;  // GKD, Online DPO: max_new_tokens; PPO: response_length
  // The most tokens that the model writes in a turn: the same, unless generation_kwargs has another number.
  int64_t max_new_tokens = 0;
  // Returns the most tokens of a completion, whose turns and answers of tools fill max_completion_length.
  int64_t longest_completion() const;

  // Completions: trainer_generation() has how tokens are chosen.
  bool skip_silent_rows = false;                 // GRPO and RLOO: no backward for rows with nothing to teach
  double loss_temperature = 1;                   // logits are divided by it in the loss, too
  bool shuffle_rollouts = true;                  // false: a trainer without the option, too
  std::string record_rollouts, replay_rollouts;  // files; empty: none
  std::string chat_template_kwargs = "{}";       // a JSON object

  // Tools that completions may call: JSON schemas by environment as a JSON object, under "" without
  // environments; empty: none.
  std::string tools;
  bool environments = false;                           // rows have one, which is reset before each generation
  bool host_parses_calls = false;                      // tool_call_parser
  std::optional<int64_t> max_tool_calling_iterations;  // none: any number

  // Rewards
  bool rewarded = false;  // the trainer learns from rewards
  std::vector<std::string> reward_funcs;
  std::string reward_model;              // a path; empty: none
  std::vector<double> reward_weights;    // empty: 1 each
  std::optional<double> reward_timeout;  // seconds
  OnRewardError on_reward_error = OnRewardError::error;
  bool reward_by_group = false;    // asked for the completions of a prompt while others are written
  bool resample_zero_std = false;  // GRPO and RLOO: groups with equal rewards get other prompts
  std::string judge;               // Online DPO: the reward that judges pairs; empty: none does
  std::optional<double> missing_eos_penalty;

  // GRPO and RLOO
  PolicyLoss policy_loss = PolicyLoss::dapo;
  double beta = 0;  // GKD, Distillation: of the divergence
  double epsilon = 0.2, epsilon_high = 0.2;
  std::optional<double> delta;
  RatioLevel importance_sampling_level = RatioLevel::token;
  ScaleRewards scale_rewards = ScaleRewards::group;
  Aggregation multi_objective_aggregation = Aggregation::sum_then_normalize;
  bool normalize_advantages = false;
  std::optional<std::pair<double, double>> reward_clip_range;
  bool mask_truncated_completions = false;
  bool computes_old_logprobs = false;  // with the model before the first update on a generation
  bool use_bias_correction_kl = true;
  std::optional<double> off_policy_mask_threshold;
  double top_entropy_quantile = 1;
  double entropy_coef = 0;
  bool use_adaptive_entropy = false;
  double entropy_coef_min = 0, entropy_coef_max = 1, entropy_coef_delta = 0.005, entropy_target = 0.2;
  bool cast_lm_head_to_fp32 = false;
  double sapo_temperature_neg = 1.05, sapo_temperature_pos = 1;
  double vespo_k_pos = 2, vespo_lambda_pos = 3, vespo_k_neg = 3, vespo_lambda_neg = 2;
  // Corrects for the difference between the log-probabilities of generation and of training: use_vllm and
  // vllm_importance_sampling_correction.
  bool corrects_sampling = false;
  bool use_vllm = false;                  // the log-probabilities of generation count as vLLM's
  std::optional<ServerArguments> server;  // that writes the completions; none: the engine does
  CorrectionMode correction_mode = CorrectionMode::sequence_mask;
  std::optional<double> correction_max, correction_min;  // vllm_importance_sampling_clip_...; none: no bound

  // GKD and Distillation
  std::string teacher;                    // a path
  std::string teacher_dtype = "float32";  // auto, float32, bfloat16 or keep
  double lmbda = 1;                       // share of micro-batches whose completions the model writes
  bool seq_kd = false;

  // Online DPO
  PairLoss pair_loss = PairLoss::sigmoid;
  std::optional<int64_t> max_length;  // tokens of prompt and completion in the loss; none: any
  std::vector<double> betas = {0.1};  // beta by epoch; the last one holds on

  // PPO
  int64_t num_mini_batches = 1;
  int64_t mini_batch_size = 8;            // rows: generation_batch_size / num_mini_batches
  std::optional<int64_t> total_episodes;  // none: num_train_epochs passes over the rows
  int64_t local_rollout_forward_batch_size = 64;
  int64_t num_sample_generations = 10;
  bool stops_at_eos = false;  // stop_token
  std::optional<int64_t> stop_token_id;
  std::string value_model;  // a path; that of the reward model if none was given; empty: the policy's
  bool value_head_on_policy = false;
  bool whiten_rewards = false;
  double kl_coef = 0.05;
  KlEstimator kl_estimator = KlEstimator::k1;
  double cliprange = 0.2, vf_coef = 0.1, cliprange_value = 0.2, gamma = 1, lam = 0.95;
};

// Reads and cross-checks the arguments of the configuration's method. A method that writes no completions
// has only the members about its reference. Throws Error(invalid_config).
OnlineArguments online_arguments(const Config& config);

// Checks that whole groups of num_generations_eval rows fill an evaluation batch; throws
// Error(invalid_config). A run checks it only if it evaluates.
void check_evaluation_size(const OnlineArguments& arguments, int64_t per_device_eval_batch_size);

// Checks that there is a reward, and a weight for each if there are any. others: rewards that neither
// reward_funcs nor the reward model gives: those of the host, and names of replay_rollouts alone. Throws
// Error(invalid_config).
void check_rewards(const OnlineArguments& arguments, int64_t others);

// Throws Error(invalid_config) if the method learns from a teacher and none is given.
void check_teacher(const Config& config);

}  // namespace trl::config
