// REINFORCE leave-one-out (TRL's RLOOTrainer): a completion is as good as its reward beside the mean of the
// others of its group, and the policy's sequences follow.
#include <algorithm>

#include "loss/policy/rloo.h"
#include "train/policy/policy_method.h"

namespace trl::train {

namespace {

class RlooLoss final : public OwnLoss {
 public:
  // batches: that the mean of their losses is over.
  RlooLoss(const loss::Clip& clip, const MicroBatch& batch, double batches)
      : clip_(clip),
        batches_(batches),
        rows_(static_cast<size_t>(batch.sequence_count())),
        targets_(rows_.size(), 0) {
    const std::vector<float>& advantages = batch.columns.at("advantages");
    for (size_t row = 0; row < rows_.size(); ++row)
      rows_[row].advantage = static_cast<double>(advantages[row]);
    const std::vector<float>& old = batch.targets.columns.at("old");
    for (size_t i = 0; i < old.size(); ++i) {
      rows_of_targets_.push_back(static_cast<size_t>(batch.targets.sequences[i]));
      rows_[rows_of_targets_.back()].old_logp += static_cast<double>(old[i]);
      ++targets_[rows_of_targets_.back()];
    }
    std::ranges::sort(rows_of_targets_);
  }

  Reach reach() const override { return Reach::sequence; }
  void take(size_t target, const kernels::TokenValues& values) override {
    // rounds to float32, as TRL and the other log-probabilities do
    rows_[rows_of_targets_[target]].logp += static_cast<double>(static_cast<float>(values.log_prob));
    entropy_ += values.entropy;
  }
  void measure() override { result_ = loss::rloo_loss(rows_, clip_); }
  kernels::TokenTerm term(size_t target, double, double) const override {
    const size_t row = rows_of_targets_[target];
    return {result_.terms[row] / batches_ / static_cast<double>(targets_[row]),
            result_.by_logp[row] / batches_};
  }
  double value() override { return result_.loss / batches_; }
  MethodMetrics metrics() override {
    // NaN: there is no token
    MethodMetrics all = {{"entropy", entropy_ / std::max(static_cast<double>(rows_of_targets_.size()), 1.0)}};
    all.insert(all.end(), result_.metrics.begin(), result_.metrics.end());
    return all;
  }

 private:
  const loss::Clip clip_;
  const double batches_;
  std::vector<loss::RlooRow> rows_;
  std::vector<int64_t> targets_;         // by row
  std::vector<size_t> rows_of_targets_;  // in order of rows
  loss::RlooResult result_;
  double entropy_ = 0;
};

class Rloo final : public PolicyMethod {
 public:
  explicit Rloo(const MethodContext& context) : PolicyMethod(context, context.arguments.online.beta != 0) {}

  void before_rewards(Rollout& rollout) override {
    add_length_metrics(rollout);
    keep_generated(rollout);
    rollout.token_columns.emplace("old", old_log_probs(rollout));
    add_gap(rollout.token_columns.at("old"), rollout);
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

 private:
  std::unique_ptr<OwnLoss> own_loss(const MicroBatch& batch, const Divisors& divisors) override {
    const loss::Clip clip{arguments().epsilon, arguments().epsilon_high};
    return std::make_unique<RlooLoss>(clip, batch, divisors.batches);
  }
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
