// REINFORCE leave-one-out (TRL's RLOOTrainer): a completion is as good as its reward beside the mean of the
// others of its group, and the policy's sequences follow.
#include <algorithm>

#include "loss/policy/rloo.h"
#include "train/online.h"

namespace trl::train {

namespace {

class RlooBatchLoss final : public SequenceLoss {
 public:
  RlooBatchLoss(const Causal& causal, const loss::Clip& clip, const MicroBatch& batch,
                const Divisors& divisors)
      : SequenceLoss(causal, divisors),
        clip_(clip),
        old_(batch.targets.columns.at("old")),
        rows_(static_cast<size_t>(batch.sequence_count())) {
    const std::vector<float>& advantages = batch.columns.at("advantages");
    for (size_t row = 0; row < rows_.size(); ++row)
      rows_[row].advantage = static_cast<double>(advantages[row]);
  }

  MethodMetrics metrics() const override {
    MethodMetrics all = {{"entropy", entropy_ / static_cast<double>(tokens_)}};  // NaN: there is no token
    all.insert(all.end(), result_.metrics.begin(), result_.metrics.end());
    if (router_loss()) all.emplace_back("aux_loss", *router_loss());
    return all;
  }

 private:
  void add(size_t target, int32_t sequence, const kernels::TokenValues& values) override {
    loss::RlooRow& row = rows_[static_cast<size_t>(sequence)];
    row.logp += values.log_prob;
    row.old_logp += static_cast<double>(old_[target]);
    entropy_ += values.entropy;
    ++tokens_;
  }
  double value() override {
    result_ = loss::rloo_loss(rows_, clip_);
    return result_.loss;
  }
  double slope(size_t, int32_t sequence) const override {
    return result_.by_logp[static_cast<size_t>(sequence)];
  }

  const loss::Clip clip_;
  const std::vector<float>& old_;  // by target
  std::vector<loss::RlooRow> rows_;
  loss::RlooResult result_;
  double entropy_ = 0;
  int64_t tokens_ = 0;
};

class Rloo final : public Online {
 public:
  explicit Rloo(const MethodContext& context) : Online(context, context.arguments.online.beta != 0) {}

  void before_rewards(Rollout& rollout) override {
    add_length_metrics(rollout);
    rollout.token_columns.emplace("old", policy_log_probs(rollout));
    if (arguments().beta != 0) rollout.token_columns.emplace("reference", reference_log_probs(rollout));
  }

  void after_rewards(Rollout& rollout) override {
    const loss::RlooOptions options{arguments().beta, arguments().reward_clip_range,
                                    arguments().normalize_advantages};
    std::vector<double> sums;
    if (arguments().beta != 0) sums = gaps(rollout);
    const loss::ReferenceGap gap{sums, static_cast<double>(rollout.items())};
    take(loss::rloo_advantages(rewards_of(rollout), options, gap), rollout);
    if (!sums.empty()) rollout.metrics.emplace_back("kl", gap.mean());
  }

  std::unique_ptr<BatchLoss> loss(const MicroBatch& batch, std::span<const MicroBatch>,
                                  const Divisors& divisors) override {
    const loss::Clip clip{arguments().epsilon, arguments().epsilon_high};
    return std::make_unique<RlooBatchLoss>(causal(), clip, batch, divisors);
  }

 private:
  // Returns the sum of log-probabilities less those of the reference, of each row.
  static std::vector<double> gaps(const Rollout& rollout) {
    const TokenRows &old = rollout.token_columns.at("old"),
                    &reference = rollout.token_columns.at("reference");
    std::vector<double> sums;
    for (size_t row = 0; row < old.size(); ++row) {
      double& sum = sums.emplace_back(0);
      for (size_t t = 0; t < old[row].size(); ++t)
        sum += static_cast<double>(old[row][t]) - static_cast<double>(reference[row][t]);
    }
    return sums;
  }
};

}  // namespace

std::unique_ptr<Method> make_rloo(const MethodContext& context) { return std::make_unique<Rloo>(context); }

}  // namespace trl::train
