// Lines for the log about options of trainers that write completions: those without an effect, and values
// that act otherwise than they seem to.
#include <algorithm>
#include <array>

#include "base/error.h"
#include "config/generation/generation_kwargs.h"
#include "config/generation/trainer_generation.h"
#include "config/online/parts.h"

namespace trl::config {

namespace {

using enum PolicyLoss;

bool is_one_of(PolicyLoss loss, std::initializer_list<PolicyLoss> losses) {
  return std::ranges::find(losses, loss) != losses.end();
}

// A key, and the option without which it has no effect.
struct OnlineNeeds {
  std::string_view key;
  bool met;
  std::string_view what;
};

void add_idle(const Config& config, const OnlineArguments& a, std::vector<std::string>& lines) {
  const PolicyLoss loss = a.policy_loss;
  const bool clips = is_one_of(loss, {grpo, bnpo, dr_grpo, dapo, luspo}), vllm = config.get_bool("use_vllm");
  const bool logs = config.get_bool("log_completions"), served = a.server.has_value();
  constexpr const char* kServed = "use_vllm: true and vllm_mode: server";
  const std::array all = {
      OnlineNeeds{"delta", clips, "loss_type grpo, bnpo, dr_grpo, dapo or luspo"},
      OnlineNeeds{"epsilon", clips || (loss == cispo && !config.is_set("epsilon_high")),
                  "a loss_type other than cispo, sapo and vespo"},
      OnlineNeeds{"epsilon_high", clips || loss == cispo, "a loss_type other than sapo and vespo"},
      OnlineNeeds{"sapo_temperature_neg", loss == sapo, "loss_type sapo"},
      OnlineNeeds{"sapo_temperature_pos", loss == sapo, "loss_type sapo"},
      OnlineNeeds{"vespo_k_pos", loss == vespo, "loss_type vespo"},
      OnlineNeeds{"vespo_lambda_pos", loss == vespo, "loss_type vespo"},
      OnlineNeeds{"vespo_k_neg", loss == vespo, "loss_type vespo"},
      OnlineNeeds{"vespo_lambda_neg", loss == vespo, "loss_type vespo"},
      OnlineNeeds{"use_bias_correction_kl", a.compares, "a beta above 0"},
      OnlineNeeds{"ref_model_name_or_path", a.compares, "a beta above 0"},
      OnlineNeeds{"entropy_coef_min", a.use_adaptive_entropy, "use_adaptive_entropy: true"},
      OnlineNeeds{"entropy_coef_max", a.use_adaptive_entropy, "use_adaptive_entropy: true"},
      OnlineNeeds{"entropy_coef_delta", a.use_adaptive_entropy, "use_adaptive_entropy: true"},
      OnlineNeeds{"entropy_target", a.use_adaptive_entropy, "use_adaptive_entropy: true"},
      OnlineNeeds{"num_completions_to_print", logs, "log_completions: true"},
      OnlineNeeds{"log_unique_prompts", logs, "log_completions: true"},
      OnlineNeeds{"max_tool_calling_iterations", !a.tools.empty(), "tools or environments"},
      OnlineNeeds{"tool_call_parser", !a.tools.empty(), "tools or environments"},
      OnlineNeeds{"eval_pass_reward", !config.get_list("eval_pass_at_k").empty(), "eval_pass_at_k"},
      OnlineNeeds{"vllm_structured_outputs_regex", vllm, "use_vllm: true"},
      OnlineNeeds{"vllm_mode", vllm, "use_vllm: true"},
      OnlineNeeds{"vllm_server_base_url", served, kServed},
      OnlineNeeds{"vllm_server_host", served && !config.is_set("vllm_server_base_url"),
                  "use_vllm: true and vllm_mode: server, and without vllm_server_base_url"},
      OnlineNeeds{"vllm_server_port", served && !config.is_set("vllm_server_base_url"),
                  "use_vllm: true and vllm_mode: server, and without vllm_server_base_url"},
      OnlineNeeds{"vllm_server_timeout", served, kServed},
      OnlineNeeds{"vllm_server_weights", served, kServed},
      OnlineNeeds{"vllm_server_api_key_file", served, kServed},
      OnlineNeeds{"vllm_server_adapter_dir", served && a.server->weights == ServerWeights::adapter,
                  "vllm_server_weights: adapter"},
      OnlineNeeds{"vllm_enable_sleep_mode", !served, "vllm_mode: colocate"},
      OnlineNeeds{"vllm_importance_sampling_correction", vllm, "use_vllm: true"},
      OnlineNeeds{"vllm_importance_sampling_mode", a.corrects_sampling,
                  "use_vllm: true and vllm_importance_sampling_correction: true"},
      OnlineNeeds{"vllm_importance_sampling_clip_max", a.corrects_sampling,
                  "use_vllm: true and vllm_importance_sampling_correction: true"},
      OnlineNeeds{"vllm_importance_sampling_clip_min", a.corrects_sampling,
                  "use_vllm: true and vllm_importance_sampling_correction: true"},
  };
  for (const OnlineNeeds& one : all)
    if (config.is_set(one.key) && !one.met)
      lines.push_back(fmt::format("{}: it has an effect only with {}", one.key, one.what));
  if (a.reward_by_group && (!a.tools.empty() || !a.replay_rollouts.empty()))
    lines.push_back(
        fmt::format("reward_by_group: it has no effect with {}: rewards are asked once for all completions",
                    a.tools.empty() ? "replay_rollouts" : "tools and environments"));
}

void add_ratios(const Config& config, const OnlineArguments& a, std::vector<std::string>& lines) {
  const bool sequence = a.importance_sampling_level == RatioLevel::sequence;
  if (a.policy_loss == cispo && a.epsilon_high < 1) {
    lines.push_back(fmt::format(
        "epsilon_high: with loss_type cispo it is the largest ratio itself, and {} is below 1, so that each "
        "token counts less than it should: 5.0 is usual",
        a.epsilon_high));
  }
  if (a.policy_loss == luspo && !sequence)
    lines.emplace_back("importance_sampling_level: loss_type luspo is meant for sequence, and it is token");
  if (a.policy_loss == vespo && sequence)
    lines.emplace_back(
        "importance_sampling_level: loss_type vespo weighs sequences itself; token is meant for it");
  if (sequence && is_one_of(a.policy_loss, {bnpo, dr_grpo, dapo, cispo})) {
    lines.push_back(fmt::format(
        "importance_sampling_level: with sequence, loss_type {} weighs each completion by its length; grpo "
        "(GSPO) does not",
        config.get("loss_type")));
  }
}

// TRL compares with vLLM's log-probabilities, which are over the tokens that the filters leave.
void add_filters(const Config& config, const OnlineArguments& a, std::vector<std::string>& lines) {
  const bool takes_old =
      (config.has("epsilon") || config.has("cliprange")) && config.get_bool("generation_exact");
  if (!a.corrects_sampling && !takes_old) return;
  const Config generation = trainer_generation(config, Completions::of_training);
  const std::array filters = {std::pair{"top_k", generation.get_int("generate.top_k") > 0},
                              std::pair{"top_p", generation.get_double("generate.top_p") < 1},
                              std::pair{"min_p", generation.get_double("generate.min_p") > 0}};
  for (const auto& [key, filters_tokens] : filters) {
    if (!filters_tokens) continue;
    lines.push_back(fmt::format(
        "{}: tokens are drawn from a part of the distribution, and {} compares probabilities in all of it, "
        "so that no ratio is biased",
        key, a.corrects_sampling ? "vllm_importance_sampling_correction" : "generation_exact"));
  }
}

// Adds a line about groups of equal completions, from which TRL learns nothing either.
void add_equal(const Config& config, std::vector<std::string>& lines) {
  const int64_t count = completions_of_prompt(config, Completions::of_training);
  if (count == 1 ||
      trainer_generation(config, Completions::of_training).get_double("generate.temperature") != 0)
    return;
  lines.push_back(fmt::format(
      "generation_kwargs: the {} completions of each prompt are greedy, and therefore equal", count));
}

void add_structures(const Config& config, std::vector<std::string>& lines) {
  if (structures_of(config) == Structures::by_regex && has_structured_outputs(config, "generation_kwargs"))
    lines.emplace_back(
        "generation_kwargs: structured_outputs has no effect beside vllm_structured_outputs_regex, which "
        "replaces it");
}

// Adds lines about keys of the order of rows that prompts do not follow.
void add_order(const Config& config, std::vector<std::string>& lines) {
  if (!config.has("shuffle_rollouts")) return;
  const MethodRow& method = config.method();
  if (config.is_set("train_sampling_strategy") && !method.episodes)
    lines.push_back(
        fmt::format("train_sampling_strategy: it has no effect with method {}, where shuffle_dataset says "
                    "whether prompts change their order",
                    method.name));
  if (config.is_set("data_seed"))
    lines.push_back(fmt::format(
        "data_seed: it has no effect with method {}, where the order of prompts follows from seed",
        method.name));
}

// Adds a line about the end of a conversation that is cut: TRL's GKD does not read the key either.
void add_truncation(const Config& config, std::vector<std::string>& lines) {
  if (config.method().rows == RowForm::conversations && config.get("truncation_mode") == "keep_start")
    lines.push_back(
        fmt::format("truncation_mode: keep_start has no effect with method {}, which keeps the "
                    "end of a conversation that is too long, as in TRL",
                    config.method().name));
}

// Adds a line about evaluations of PPO, whose trainer makes none in TRL either: its script takes evaluation
// rows by the key.
void add_evaluation(const Config& config, std::vector<std::string>& lines) {
  const std::string when = config.get("eval_strategy");
  if (config.method().evaluates || when == "no") return;
  lines.push_back(
      fmt::format("eval_strategy: {} makes no evaluation with method {}, as in TRL: num_sample_generations "
                  "completes evaluation rows, and says how often",
                  when, config.method().name));
}

}  // namespace

void add_online_statements(const Config& config, std::vector<std::string>& lines) {
  if (!config.method().generates) return;
  const OnlineArguments a = online_arguments(config);
  add_idle(config, a, lines);
  if (config.has("importance_sampling_level")) add_ratios(config, a, lines);
  add_filters(config, a, lines);
  add_equal(config, lines);
  add_order(config, lines);
  add_structures(config, lines);
  add_truncation(config, lines);
  add_evaluation(config, lines);
  // prompts that are compared with a reference are cut
  const std::optional<int64_t> length = config.get_optional_int("max_length");
  if (config.has("max_length") && a.compares && length && a.max_new_tokens >= *length) {
    lines.push_back(fmt::format("max_new_tokens: {} leaves no room for prompts in max_length {}",
                                a.max_new_tokens, *length));
  }
}

}  // namespace trl::config
