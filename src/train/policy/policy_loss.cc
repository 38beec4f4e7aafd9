#include "train/policy/policy_loss.h"

#include <algorithm>
#include <numeric>

#include "train/rollout/rollout.h"

namespace trl::train {

namespace {

// Rounds as TRL and the other log-probabilities are: those of two equal models then have no difference.
double rounded(double log_prob) { return static_cast<double>(static_cast<float>(log_prob)); }

loss::PolicyScale scale_of(const MicroBatch& batch, const Divisors& divisors, double steps_per_generation) {
  const auto items = static_cast<double>(batch.items);
  if (!divisors.training) return {.items = items};
  return {items, divisors.batches, steps_per_generation};
}

class PolicyOwnLoss final : public OwnLoss {
 public:
  PolicyOwnLoss(const loss::PolicyOptions& options, const MicroBatch& batch, const loss::PolicyScale& scale,
                PolicyValuesOf values)
      : order_(by_sequence(batch.targets.sequences)),
        rows_(ordered(batch.targets.sequences)),
        old_(column(batch, "old")),
        reference_(column(batch, "reference")),
        sampling_(column(batch, "sampling")),
        importance_(column(batch, "importance")),
        stated_(column(batch, kStated)),
        log_probs_(rows_.size()),
        entropies_(rows_.size()),
        reach_(options.top_entropy_quantile < 1 ? Reach::all : Reach::sequence),
        by_entropy_(options.entropy_coef.value_or(0) != 0),
        values_(std::move(values)),
        policy_(options, {batch.columns.at("advantages"), rows_, old_, reference_, sampling_, importance_},
                scale) {}

  Reach reach() const override { return policy_.by_token() ? Reach::token : reach_; }
  bool by_entropy() const override { return by_entropy_; }
  void take(size_t target, const kernels::TokenValues& values) override {
    log_probs_[target] = rounded(values.log_prob);
    entropies_[target] = values.entropy;
  }
  void measure() override { policy_.measure(log_probs_, entropies_); }
  kernels::TokenTerm term(size_t target, double log_prob, double entropy) const override {
    const loss::Policy::Term t = policy_.term(target, rounded(log_prob), entropy);
    return {t.loss, t.by_log_prob, 0, t.by_entropy};
  }
  double value() override {
    double sum = 0;
    for (size_t i = 0; i < log_probs_.size(); ++i) sum += policy_.term(i, log_probs_[i], entropies_[i]).loss;
    return sum;
  }
  MethodMetrics metrics() override {
    if (values_) values_({log_probs_, policy_.counted(log_probs_, entropies_), stated_});
    return policy_.metrics(log_probs_, entropies_);
  }

 private:
  // Returns the places of the micro-batch's targets in order of sequences, then of tokens.
  static std::vector<size_t> by_sequence(const std::vector<int32_t>& sequences) {
    std::vector<size_t> order(sequences.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, {}, [&](size_t target) { return sequences[target]; });
    return order;
  }
  template <typename T>
  std::vector<T> ordered(const std::vector<T>& values) const {
    std::vector<T> out;
    for (const size_t target : order_) out.push_back(values[target]);
    return out;
  }
  std::vector<float> column(const MicroBatch& batch, std::string_view name) const {
    const auto found = batch.targets.columns.find(name);
    return found == batch.targets.columns.end() ? std::vector<float>() : ordered(found->second);
  }

  const std::vector<size_t> order_;
  const std::vector<int32_t> rows_;
  const std::vector<float> old_, reference_, sampling_, importance_, stated_;
  std::vector<double> log_probs_, entropies_;
  const Reach reach_;
  const bool by_entropy_;
  const PolicyValuesOf values_;
  loss::Policy policy_;
};

}  // namespace

std::unique_ptr<OwnLoss> policy_loss(const loss::PolicyOptions& options, const MicroBatch& batch,
                                     const Divisors& divisors, double steps_per_generation,
                                     const PolicyValuesOf& values) {
  return std::make_unique<PolicyOwnLoss>(options, batch, scale_of(batch, divisors, steps_per_generation),
                                         values);
}

}  // namespace trl::train
