#include "train/policy_loss.h"

#include <algorithm>
#include <deque>
#include <numeric>

#include "tensor/memory/rehearsal.h"

namespace trl::train {

namespace {

// Rounds as TRL and the other log-probabilities are: those of two equal models then have no difference.
double rounded(double log_prob) { return static_cast<double>(static_cast<float>(log_prob)); }

loss::PolicyScale scale_of(const MicroBatch& batch, const Divisors& divisors, double steps_per_generation) {
  const auto items = static_cast<double>(batch.items);
  if (!divisors.training) return {.items = items};
  return {items, divisors.batches, steps_per_generation};
}

// The targets of a micro-batch by sequence, in which order the policy has them, and their values.
class PolicyTargets {
 public:
  PolicyTargets(const loss::PolicyOptions& options, const MicroBatch& batch, const loss::PolicyScale& scale)
      : places_(batch.targets.sequences.size()),
        advantages_(batch.columns.at("advantages")),
        rows_(places_.size()),
        old_(by_sequence(batch, "old")),
        reference_(by_sequence(batch, "reference")),
        sampling_(by_sequence(batch, "sampling")),
        importance_(by_sequence(batch, "importance")),
        log_probs_(places_.size()),
        entropies_(places_.size()),
        policy_(options, {advantages_, rows_, old_, reference_, sampling_, importance_}, scale) {}

  const loss::Policy& policy() const { return policy_; }
  size_t place(size_t target) const { return places_[target]; }
  // Takes in the values of targets from `first` on.
  void take(size_t first, const std::vector<kernels::TokenValues>& values) {
    for (size_t i = 0; i < values.size(); ++i) {
      log_probs_[places_[first + i]] = rounded(values[i].log_prob);
      entropies_[places_[first + i]] = values[i].entropy;
    }
  }
  void measure() { policy_.measure(log_probs_, entropies_); }
  double value() const {
    double sum = 0;
    for (size_t i = 0; i < log_probs_.size(); ++i) sum += policy_.term(i, log_probs_[i], entropies_[i]).loss;
    return sum;
  }
  MethodMetrics metrics() const { return policy_.metrics(log_probs_, entropies_); }
  void tell_entropy(const EntropyOf& entropy) const {
    entropy(std::accumulate(entropies_.begin(), entropies_.end(), 0.0),
            static_cast<double>(entropies_.size()));
  }

 private:
  // Fills in places_ and rows_ at the first call.
  std::vector<float> by_sequence(const MicroBatch& batch, std::string_view column) {
    const std::vector<int32_t>& sequences = batch.targets.sequences;
    if (column == "old") {
      std::vector<size_t> order(sequences.size());
      std::iota(order.begin(), order.end(), size_t{0});
      std::ranges::stable_sort(order, {}, [&](size_t target) { return sequences[target]; });
      for (size_t i = 0; i < order.size(); ++i) {
        places_[order[i]] = i;
        rows_[i] = sequences[order[i]];
      }
    }
    const auto found = batch.targets.columns.find(column);
    if (found == batch.targets.columns.end()) return {};
    std::vector<float> out(found->second.size());
    for (size_t i = 0; i < out.size(); ++i) out[places_[i]] = found->second[i];
    return out;
  }

  std::vector<size_t> places_;  // of each target of the micro-batch
  const std::vector<float>& advantages_;
  std::vector<int32_t> rows_;
  const std::vector<float> old_, reference_, sampling_, importance_;
  std::vector<double> log_probs_, entropies_;
  loss::Policy policy_;
};

// The terms of a part, whose first target is the `first` of its micro-batch.
class PolicyTerms final : public kernels::TargetLoss {
 public:
  PolicyTerms(const PolicyTargets& targets, size_t first, bool by_entropy)
      : targets_(targets), first_(first), by_entropy_(by_entropy) {}
  kernels::TokenTerm term(size_t target, double log_prob, double entropy) const override {
    const loss::Policy::Term t =
        targets_.policy().term(targets_.place(first_ + target), rounded(log_prob), entropy);
    return {t.loss, t.by_log_prob, 0, t.by_entropy};
  }
  bool by_entropy() const override { return by_entropy_; }

 private:
  const PolicyTargets& targets_;
  const size_t first_;
  const bool by_entropy_;
};

// The targets of a loss of either kind, their terms part by part, and the routers' loss.
class PolicyParts {
 public:
  PolicyParts(const Causal& causal, const loss::PolicyOptions& options, const MicroBatch& batch,
              const Divisors& divisors, double steps_per_generation, const EntropyOf& entropy)
      : targets(options, batch, scale_of(batch, divisors, steps_per_generation)),
        causal_(causal),
        router_weight_(causal.router_weight() / divisors.batches),
        by_entropy_(options.entropy_coef.value_or(0) != 0),
        entropy_(entropy) {}

  kernels::HeadOptions head_options(const model::Output& output) const {
    return causal_.options(output.head);
  }
  // Returns the graph of the next part. values: as head_loss's.
  at::Tensor graph(const model::Output& output, const MicroBatch& part,
                   std::vector<kernels::TokenValues>* values) {
    const PolicyTerms& terms = terms_.emplace_back(targets, learned_, by_entropy_);
    learned_ += part.targets.tokens.rows.size();
    at::Tensor loss = kernels::head_loss(output.hidden, *output.head.weight, part.targets.tokens,
                                         {.kind = kernels::TokenFormula::Kind::given, .given = &terms},
                                         head_options(output), values);
    if (!output.router_loss.defined()) return loss;
    router_loss_ = output.router_loss.item<double>();
    return loss + output.router_loss * router_weight_;
  }
  MethodMetrics metrics() const {
    MethodMetrics all = targets.metrics();
    if (router_loss_) all.emplace_back("aux_loss", *router_loss_);
    if (entropy_) targets.tell_entropy(entropy_);
    return all;
  }
  size_t learned() const { return learned_; }
  double router_share() const { return router_loss_.value_or(0) * router_weight_; }
  void note_router_loss(const model::Output& output) {
    if (output.router_loss.defined()) router_loss_ = output.router_loss.item<double>();
  }

  PolicyTargets targets;

 private:
  const Causal& causal_;
  const double router_weight_;
  const bool by_entropy_;
  const EntropyOf entropy_;
  std::deque<PolicyTerms> terms_;  // of each part; a graph refers to them
  size_t learned_ = 0;             // targets of the parts so far
  std::optional<double> router_loss_;
};

class TokenPolicyLoss final : public SummedLoss {
 public:
  explicit TokenPolicyLoss(std::unique_ptr<PolicyParts> parts) : parts_(std::move(parts)) {}
  MethodMetrics metrics() const override { return parts_->metrics(); }

 private:
  Share share(const model::Output& output, const MicroBatch& part) override {
    const tensor::Stage stage("loss");
    std::vector<kernels::TokenValues> values;
    const size_t first = parts_->learned();
    const at::Tensor loss = parts_->graph(output, part, &values);
    parts_->targets.take(first, values);
    return {loss.item<float>(), loss};
  }

  const std::unique_ptr<PolicyParts> parts_;
};

class MeasuredPolicyLoss final : public WeighedLoss {
 public:
  explicit MeasuredPolicyLoss(std::unique_ptr<PolicyParts> parts) : parts_(std::move(parts)) {}
  MethodMetrics metrics() const override { return parts_->metrics(); }

 private:
  void measure(const model::Output& output, const MicroBatch& part) override {
    const tensor::Stage stage("loss");
    const std::vector<kernels::TokenValues> values = kernels::head_values(
        output.hidden, *output.head.weight, part.targets.tokens, parts_->head_options(output));
    parts_->targets.take(measured_, values);
    measured_ += values.size();
    parts_->note_router_loss(output);
  }
  float weigh() override {
    parts_->targets.measure();
    return static_cast<float>(parts_->targets.value() + parts_->router_share());
  }
  at::Tensor learn(const model::Output& output, const MicroBatch& part) override {
    const tensor::Stage stage("loss");
    return parts_->graph(output, part, nullptr);
  }

  const std::unique_ptr<PolicyParts> parts_;
  size_t measured_ = 0;
};

}  // namespace

std::unique_ptr<BatchLoss> policy_loss(const Causal& causal, const loss::PolicyOptions& options,
                                       const MicroBatch& batch, const Divisors& divisors,
                                       double steps_per_generation, const EntropyOf& entropy) {
  auto parts = std::make_unique<PolicyParts>(causal, options, batch, divisors, steps_per_generation, entropy);
  if (parts->targets.policy().by_token()) return std::make_unique<TokenPolicyLoss>(std::move(parts));
  return std::make_unique<MeasuredPolicyLoss>(std::move(parts));
}

}  // namespace trl::train
