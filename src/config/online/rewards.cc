// The rewards of online trainers, and how they become advantages.
#include <cmath>

#include "base/error.h"
#include "base/text/number.h"
#include "config/online/parts.h"
#include "config/online/reward_numbers.h"
#include "config/table/option_value.h"

namespace trl::config {

std::vector<double> finite_numbers(const Config& config, std::string_view key) {
  std::vector<double> numbers;
  for (const std::string& text : config.get_list(key)) {
    const std::optional<double> number = base::parse_double(text);
    if (!number || !std::isfinite(*number))
      fail_key(key, "{}: {} is not a finite number; give numbers, as in [1, 0.5]", key, shown(text));
    numbers.push_back(*number);
  }
  return numbers;
}

namespace {

// Returns the number of rewards that options name.
int64_t known_rewards(const OnlineArguments& a) {
  return std::ssize(a.reward_funcs) + (a.reward_model.empty() ? 0 : 1);
}

void check_judge(const OnlineArguments& a) {
  if (a.judge.empty()) return;
  if (a.missing_eos_penalty)
    fail_key("missing_eos_penalty",
             "missing_eos_penalty: {} is refused, because judge: {} gives no rewards that it could lessen",
             *a.missing_eos_penalty, shown(a.judge));
  if (!a.reward_model.empty())
    fail_key("judge", "judge: {} judges pairs instead of rewards: leave it out, or reward_model_name_or_path",
             shown(a.judge));
}

void check_weights(const OnlineArguments& a, int64_t rewards) {
  const std::string wrong = wrong_weights(std::ssize(a.reward_weights), rewards);
  if (!wrong.empty()) fail_key("reward_weights", "{}", wrong);
}

}  // namespace

void read_online_rewards(const Config& config, OnlineArguments& out) {
  out.rewarded = config.has("reward_funcs");
  out.reward_funcs = config.get_list("reward_funcs");
  out.reward_model = config.get_text("reward_model_name_or_path").value_or("");
  out.reward_weights = finite_numbers(config, "reward_weights");
  if (std::ssize(out.reward_weights) < known_rewards(out)) check_weights(out, known_rewards(out));
  out.reward_timeout = config.get_optional_double("reward_timeout");
  out.on_reward_error = word_of<OnRewardError>(config, "on_reward_error");
  out.missing_eos_penalty = config.get_optional_double("missing_eos_penalty");
  if (config.has("judge")) out.judge = config.get_text("judge").value_or("");
  check_judge(out);
  out.scale_rewards = word_of<ScaleRewards>(config, "scale_rewards");
  out.multi_objective_aggregation = word_of<Aggregation>(config, "multi_objective_aggregation");
  out.normalize_advantages = config.get_bool("normalize_advantages");
  const std::vector<double> range = finite_numbers(config, "reward_clip_range");
  if (range.empty()) return;
  if (range.size() != 2 || range[0] > range[1]) {
    fail_key("reward_clip_range",
             "reward_clip_range: [{}] is not accepted; give two numbers, the lower one first",
             fmt::join(range, ", "));
  }
  out.reward_clip_range = {range[0], range[1]};
}

void check_rewards(const OnlineArguments& arguments, int64_t others) {
  const int64_t count = known_rewards(arguments) + others;
  if (!arguments.rewarded) {
    if (count == 0) return;
    fail(Status::invalid_argument,
         "this trainer learns from a teacher and takes no rewards: leave out the host's functions, and "
         "rewards in the file of replay_rollouts");
  }
  if (count == 0) fail_key("reward_funcs", "{}", kNoReward);
  check_weights(arguments, count);
}

}  // namespace trl::config
