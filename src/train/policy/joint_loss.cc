#include "train/policy/joint_loss.h"

#include <ATen/core/grad_mode.h>

#include "tensor/memory/rehearsal.h"
#include "train/rollout/rollout.h"

namespace trl::train {

namespace {

// Returns the number of the first target of each sequence.
std::vector<size_t> first_targets(const MicroBatch& batch) {
  std::vector<size_t> counts(static_cast<size_t>(batch.sequence_count()), 0);
  for (const int32_t sequence : batch.targets.sequences) ++counts[static_cast<size_t>(sequence)];
  size_t first = 0;
  for (size_t& count : counts) first += std::exchange(count, first);
  return counts;
}

}  // namespace

class JointLoss::Terms final : public kernels::TargetLoss {
 public:
  Terms(const JointLoss& loss, const PartTargets& targets) : loss_(loss), targets_(targets) {}
  kernels::TokenTerm term(size_t target, double log_prob, double entropy) const override {
    const Target& own = targets_[target];
    return loss_.own_[own.batch]->term(own.number, log_prob, entropy);
  }
  bool by_entropy() const override { return loss_.own_.front()->by_entropy(); }

 private:
  const JointLoss& loss_;
  const PartTargets targets_;
};

JointLoss::JointLoss(const Causal& causal, std::span<const MicroBatch> batches, const Joint& joint,
                     std::vector<std::unique_ptr<OwnLoss>> own, const Divisors& divisors)
    : causal_(causal),
      places_(joint.places),
      silent_(joint.silent),
      own_(std::move(own)),
      reach_(own_.front()->reach()),
      router_weight_(causal.router_weight() / divisors.batches) {
  for (const MicroBatch& batch : batches) next_.push_back(first_targets(batch));
  for (const Place& place : joint.generated) take_generated(batches[place.batch], place);
}

JointLoss::~JointLoss() = default;

void JointLoss::each_part(std::span<const MicroBatch> parts, const PartForward& forward,
                          const PartBackward& backward) {
  const bool learns = at::GradMode::is_enabled();
  const bool ahead = !learns || (reach_ == OwnLoss::Reach::all && parts.size() > 1);
  std::vector<PartTargets> targets;
  for (const MicroBatch& part : parts) targets.push_back(targets_of(part));
  for (size_t p = 0; p < (ahead ? parts.size() : silent_); ++p) {
    const at::NoGradGuard no_graph;
    measure(forward(parts[p]), parts[p], targets[p]);
  }
  if (!learns || silent_ == parts.size()) {
    double value = router_share();
    if (reach_ != OwnLoss::Reach::token)
      for (const auto& own : own_) own->measure();
    for (const auto& own : own_) value += own->value();
    backward({static_cast<float>(value), {}}, true);
    return;
  }
  for (size_t p = silent_; p < parts.size(); ++p) {
    // the output is freed before backward
    const Share own = share(forward(parts[p]), parts[p], targets[p], ahead);
    if (!backward(own, p + 1 == parts.size())) return;
  }
}

JointLoss::PartTargets JointLoss::targets_of(const MicroBatch& part) {
  PartTargets targets;
  for (const int32_t sequence : part.targets.sequences) {
    const Place& place = places_[static_cast<size_t>(sequence)];
    targets.push_back({place.batch, next_[place.batch][place.sequence]++});
  }
  return targets;
}

void JointLoss::take_generated(const MicroBatch& batch, const Place& place) {
  const std::vector<float>&log_probs = batch.targets.columns.at(kGenerated),
        &entropies = batch.targets.columns.at(kGeneratedEntropy);
  const std::vector<int32_t>& sequences = batch.targets.sequences;
  size_t& target = next_[place.batch][place.sequence];
  for (; target < sequences.size() && std::cmp_equal(sequences[target], place.sequence); ++target)
    own_[place.batch]->take(target, {.log_prob = static_cast<double>(log_probs[target]),
                                     .entropy = static_cast<double>(entropies[target])});
}

void JointLoss::take(const PartTargets& targets, const std::vector<kernels::TokenValues>& values) {
  for (size_t i = 0; i < targets.size(); ++i) own_[targets[i].batch]->take(targets[i].number, values[i]);
}

double JointLoss::measure(const model::Output& output, const MicroBatch& part, const PartTargets& targets) {
  const tensor::Stage stage("loss");
  const std::vector<kernels::TokenValues> values = kernels::head_values(
      output.hidden, *output.head.weight, part.targets.tokens, causal_.options(output.head));
  take(targets, values);
  if (output.router_loss.defined()) router_loss_ = output.router_loss.item<double>();
  if (reach_ == OwnLoss::Reach::token) return 0;
  for (const auto& own : own_) own->measure();
  double sum = 0;
  for (size_t i = 0; i < targets.size(); ++i)
    sum += own_[targets[i].batch]->term(targets[i].number, values[i].log_prob, values[i].entropy).loss;
  return sum;
}

Share JointLoss::share(const model::Output& output, const MicroBatch& part, const PartTargets& targets,
                       bool measured) {
  const tensor::Stage stage("loss");
  const bool by_token = reach_ == OwnLoss::Reach::token;
  double value = 0;
  if (!by_token && !measured) {
    const at::NoGradGuard no_graph;
    value = measure(output, part, targets);
  }
  terms_.push_back(std::make_unique<Terms>(*this, targets));
  std::vector<kernels::TokenValues> values;
  at::Tensor graph =
      kernels::head_loss(output.hidden, *output.head.weight, part.targets.tokens,
                         {.kind = kernels::TokenFormula::Kind::given, .given = terms_.back().get()},
                         causal_.options(output.head), by_token ? &values : nullptr);
  if (by_token) {
    take(targets, values);
    value = graph.item<double>();
  }
  if (output.router_loss.defined()) {
    router_loss_ = output.router_loss.item<double>();
    graph = graph + output.router_loss * router_weight_;
    value += router_share();
  }
  return {static_cast<float>(value), graph};
}

MethodMetrics JointLoss::metrics_of(OwnLoss& own) const {
  MethodMetrics all = own.metrics();
  if (router_loss_) all.emplace_back("aux_loss", *router_loss_);
  return all;
}

std::vector<BatchResult> JointLoss::results(float) const {
  std::vector<BatchResult> all;
  for (const auto& own : own_)
    all.push_back({static_cast<float>(own->value() + router_share()), metrics_of(*own)});
  return all;
}

}  // namespace trl::train
