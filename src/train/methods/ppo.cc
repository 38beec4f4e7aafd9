// Proximal policy optimisation (TRL's PPOTrainer, up to 1.12): a second model learns what rewards to expect
// after each token, and the policy follows the tokens that did better.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "loss/policy/gae.h"
#include "loss/policy/ppo_rewards.h"
#include "tensor/memory/rehearsal.h"
#include "train/batches/batches.h"
#include "train/policy/online.h"
#include "train/policy/ppo_loss.h"
#include "train/policy/values.h"
#include "train/rollout/padded_rows.h"

namespace trl::train {

namespace {

constexpr const char* kReference = "reference";
constexpr std::string_view kRatio = "val/ratio";

// The first values of a row.
std::vector<double> first_of(const std::vector<float>& row, size_t count) {
  return {row.begin(), row.begin() + static_cast<std::ptrdiff_t>(count)};
}

std::optional<int32_t> stop_of(const MethodContext& context) {
  if (context.arguments.online.stops_at_eos) return context.tokens.eos;
  if (!context.arguments.online.stop_token_id) return std::nullopt;
  return static_cast<int32_t>(*context.arguments.online.stop_token_id);
}

class Ppo final : public Online {
 public:
  explicit Ppo(const MethodContext& context)
      : Online(context, true),
        end_(context.tokens.eos),
        padded_(context.tokens.pad >= 0 ? context.tokens.pad : context.tokens.eos, stop_of(context),
                takes_trees(context.arguments, context.model, context.attention)),
        values_(context, causal()) {}

  std::vector<TrainedModel> others() const override { return values_.trained(); }
  Divisors divisors(std::span<const MicroBatch>, bool training) const override {
    return {.batches = static_cast<double>(all_arguments().gradient_accumulation_steps),
            .training = training};
  }
  data::Batch batch_of(const Rollout& rollout, std::span<const int64_t> rows) const override {
    return padded_.batch_of(rollout, rows);
  }

  void before_rewards(Rollout& rollout) override {
    padded_.pad(rollout);
    TokenRows old = old_rows(rollout);
    rollout.token_columns.emplace(kOld, old);
    for (size_t row = 0; row < old.size(); ++row)
      old[row].resize(padded_.tokens(rollout.completions[row].ids));  // no others are learned from
    add_gap(old, rollout);
    rollout.token_columns.emplace(kReference, reference_log_probs(rollout));
    rollout.token_columns.emplace(kValue, value_rows(rollout));
  }
  std::vector<engine::Completion> rewarded(const Rollout& rollout) const override {
    std::vector<engine::Completion> out = rollout.completions;
    for (engine::Completion& own : out) {
      own.ids.resize(padded_.tokens(own.ids));
      if (!own.log_probabilities.empty()) own.log_probabilities.resize(own.ids.size());
    }
    return out;
  }
  void after_rewards(Rollout& rollout) override;
  int64_t tokens(const Rollout& rollout) const override {
    int64_t sum = 0;
    for (const std::vector<int32_t>& prompt : rollout.prompts.ids) sum += std::ssize(prompt);
    for (const engine::Completion& own : rollout.completions)
      sum += static_cast<int64_t>(padded_.tokens(own.ids));
    return sum;
  }

  std::unique_ptr<BatchLoss> loss(const MicroBatch& batch, std::span<const MicroBatch>,
                                  const Divisors& divisors) override {
    return ppo_loss(causal(), values_, arguments(), batch, {divisors.batches, share_of_micro_batch()});
  }
  MethodMetrics step_metrics(std::span<const MethodMetrics> all) const override;

 private:
  // TRL's means are over gradient_accumulation_steps numbers of each mini-batch. They count as 0 those of
  // micro-batches that it does not have.
  double share_of_micro_batch() const {
    const auto slices = static_cast<double>(arguments().steps_per_generation);
    const int64_t numbers = arguments().num_mini_batches * all_arguments().gradient_accumulation_steps;
    return slices / static_cast<double>(numbers);
  }
  TokenRows old_rows(Rollout& rollout);
  TokenRows value_rows(const Rollout& rollout) const;
  double score_of(const Rollout& rollout, size_t row) const;
  void estimate(const std::vector<std::vector<double>>& rewards, Rollout& rollout) const;

  const int32_t end_;
  const PaddedRows padded_;
  const Values values_;
};

// Returns the log-probabilities of the tokens that count, 0 after them. Generation saw prompts whole.
TokenRows Ppo::old_rows(Rollout& rollout) {
  const bool whole =
      std::ranges::none_of(rollout.prompts.ids, [&](const auto& prompt) { return padded_.shortens(prompt); });
  rollout.stated = rollout.stated && whole;
  rollout.exact = rollout.exact && whole;
  TokenRows rows = old_log_probs(rollout);
  for (size_t row = 0; row < rows.size(); ++row) {
    const size_t tokens = padded_.tokens(rollout.completions[row].ids);
    std::fill(rows[row].begin() + static_cast<std::ptrdiff_t>(tokens), rows[row].end(), 0.0f);
  }
  return rows;
}

// Returns the values of the states of each row, 0 after them.
TokenRows Ppo::value_rows(const Rollout& rollout) const {
  const tensor::Stage stage("reference");
  const size_t width = rollout.completions.front().ids.size();
  std::vector<float> all;
  each_part(rollout, [&](const MicroBatch& part, std::span<const int64_t>) {
    const std::vector<float>& marks = part.states.at(kReturn);
    std::vector<int32_t> rows;
    for (int32_t row = 0; row < part.input_ids.numel(); ++row)
      if (!std::isnan(marks[static_cast<size_t>(part.first + row)])) rows.push_back(row);
    const at::NoGradGuard no_graph;
    const at::Tensor own = values_.at(values_.forward(part, std::nullopt), rows).contiguous();
    all.insert(all.end(), own.data_ptr<float>(), own.data_ptr<float>() + own.numel());
  });
  TokenRows out;
  auto next = all.begin();
  for (const engine::Completion& own : rollout.completions) {
    const auto end = next + static_cast<std::ptrdiff_t>(padded_.states(own.ids));
    out.emplace_back(next, end).resize(width, 0.0f);
    next = end;
  }
  return out;
}

// Returns the weighted sum of the rewards that there are, less the penalty of a completion without an end.
double Ppo::score_of(const Rollout& rollout, size_t row) const {
  const engine::Rewards& rewards = rollout.rewards;
  double score = 0;
  for (size_t f = 0; f < rewards.names.size(); ++f)
    if (const double value = rewards.values[row * rewards.names.size() + f]; !std::isnan(value))
      score += rewards.weights[f] * value;
  const bool ends = padded_.contains(rollout.completions[row].ids, end_);
  return ends ? score : score - arguments().missing_eos_penalty.value_or(0);
}

void Ppo::after_rewards(Rollout& rollout) {
  const config::OnlineArguments& a = arguments();
  const loss::PpoRewardOptions options{
      a.kl_coef, a.kl_estimator == config::KlEstimator::k1 ? loss::KlEstimator::k1 : loss::KlEstimator::k3};
  const size_t rows = rollout.completions.size(), width = rollout.completions.front().ids.size();
  std::vector<std::vector<double>> old, reference, rewards;
  std::vector<loss::PpoCompletion> completions;
  double ends = 0;
  for (size_t row = 0; row < rows; ++row) {
    const std::vector<int32_t>& ids = rollout.completions[row].ids;
    const size_t tokens = padded_.tokens(ids);
    old.push_back(first_of(rollout.token_columns.at(kOld)[row], tokens));
    reference.push_back(first_of(rollout.token_columns.at(kReference)[row], tokens));
    ends += static_cast<double>(std::ranges::count(ids, end_));
  }
  for (size_t row = 0; row < rows; ++row) {
    completions.push_back({old[row], reference[row], score_of(rollout, row)});
    rewards.push_back(loss::ppo_rewards(completions.back(), width, options));
  }
  for (const auto& [name, value] : loss::ppo_objective(completions, width, options))
    rollout.metrics.emplace_back(name, value);
  rollout.metrics.emplace_back("val/num_eos_tokens", ends);
  estimate(rewards, rollout);
}

// Adds the columns of returns and advantages.
void Ppo::estimate(const std::vector<std::vector<double>>& rewards, Rollout& rollout) const {
  const config::OnlineArguments& a = arguments();
  std::vector<double> flat, of_tokens;
  for (const std::vector<double>& own : rewards) flat.insert(flat.end(), own.begin(), own.end());
  if (a.whiten_rewards) loss::whiten(flat, true);
  const size_t width = rollout.completions.front().ids.size();
  TokenRows returns, advantages;
  std::span<const double> next = flat;
  for (size_t row = 0; row < rewards.size(); ++row) {
    const size_t states = rewards[row].size();
    const std::vector<double> values = first_of(rollout.token_columns.at(kValue)[row], states);
    std::vector<double> own(states);
    loss::estimate_advantages(next.first(states), values, a.gamma, a.lam, own);
    next = next.subspan(states);
    std::vector<float>& sums = returns.emplace_back(width, 0.0f);
    for (size_t t = 0; t < states; ++t) sums[t] = static_cast<float>(own[t] + values[t]);
    own.resize(padded_.tokens(rollout.completions[row].ids));
    of_tokens.insert(of_tokens.end(), own.begin(), own.end());
  }
  loss::whiten(of_tokens, false);
  auto from = of_tokens.begin();
  for (const engine::Completion& own : rollout.completions) {
    const auto end = from + static_cast<std::ptrdiff_t>(padded_.tokens(own.ids));
    advantages.emplace_back(from, end).resize(width, 0.0f);
    from = end;
  }
  rollout.token_columns.emplace(kReturn, std::move(returns));
  rollout.token_columns.emplace(kAdvantages, std::move(advantages));
}

// The variance of the mean ratios of a sample: of all micro-batches of the step, with TRL's zeros.
MethodMetrics Ppo::step_metrics(std::span<const MethodMetrics> all) const {
  std::vector<double> ratios;
  for (const MethodMetrics& own : all)
    for (const auto& [name, value] : own)
      if (name == kRatio) ratios.push_back(value / share_of_micro_batch());
  ratios.resize(static_cast<size_t>(std::lround(static_cast<double>(ratios.size()) / share_of_micro_batch())),
                0.0);
  const auto count = static_cast<double>(ratios.size());
  const double mean = std::reduce(ratios.begin(), ratios.end()) / count;
  double squares = 0;
  for (const double ratio : ratios) squares += (ratio - mean) * (ratio - mean);
  return {{"val/ratio_var", squares / (count - 1)}};
}

}  // namespace

std::unique_ptr<Method> make_ppo(const MethodContext& context) { return std::make_unique<Ppo>(context); }

}  // namespace trl::train
