#include "train/batch_loss.h"

#include <ATen/core/grad_mode.h>

#include "tensor/memory/rehearsal.h"

namespace trl::train {

void SummedLoss::each_part(std::span<const MicroBatch> parts, const PartForward& forward,
                           const PartBackward& backward) {
  for (const MicroBatch& part : parts) {
    const Share own = share(forward(part), part);
    if (!backward(own, &part == &parts.back())) return;
  }
}

void WeighedLoss::each_part(std::span<const MicroBatch> parts, const PartForward& forward,
                            const PartBackward& backward) {
  const bool learns = at::GradMode::is_enabled(), whole = parts.size() == 1;
  float value = 0;
  if (!whole) {
    const at::NoGradGuard no_graph;
    for (const MicroBatch& part : parts) measure(forward(part), part);
    value = weigh();
  }
  if (!whole && !learns) {
    backward({value, {}}, true);
    return;
  }
  // The output is freed before backward.
  const auto share = [&](const MicroBatch& part) -> Share {
    const model::Output output = forward(part);
    if (whole) {
      const at::NoGradGuard no_graph;
      measure(output, part);
      value = weigh();
    }
    return {std::exchange(value, 0.0f), learns ? learn(output, part) : at::Tensor()};
  };
  for (const MicroBatch& part : parts)
    if (!backward(share(part), &part == &parts.back())) return;
}

void SequenceLoss::measure(const model::Output& output, const MicroBatch& part) {
  const tensor::Stage stage("loss");
  std::vector<kernels::TokenValues> values = kernels::head_values(
      output.hidden, *output.head.weight, part.targets.tokens, causal_.options(output.head));
  for (size_t i = 0; i < values.size(); ++i) {
    // rounds to float32, as TRL and the reference do: two equal models then have no difference
    values[i].log_prob = static_cast<double>(static_cast<float>(values[i].log_prob));
    add(sequences_.size(), part.targets.sequences[i], values[i]);
    sequences_.push_back(part.targets.sequences[i]);
  }
  if (!output.router_loss.defined()) return;
  router_loss_ = output.router_loss.item<double>();
  router_share_ = (output.router_loss * (causal_.router_weight() / batches_)).item<float>();
}

float SequenceLoss::weigh() {
  const double all = value() / batches_;
  for (size_t i = 0; i < sequences_.size(); ++i)
    if (learns(i, sequences_[i])) weights_.push_back(slope(i, sequences_[i]) / batches_);
  return static_cast<float>(all) + router_share_;
}

at::Tensor SequenceLoss::learn(const model::Output& output, const MicroBatch& part) {
  const tensor::Stage stage("loss");
  kernels::HeadTargets learned;
  for (size_t i = 0; i < part.targets.sequences.size(); ++i) {
    if (!learns(passed_ + i, part.targets.sequences[i])) continue;
    learned.rows.push_back(part.targets.tokens.rows[i]);
    learned.tokens.push_back(part.targets.tokens.tokens[i]);
  }
  passed_ += part.targets.sequences.size();
  const auto begin = weights_.begin() + static_cast<std::ptrdiff_t>(learned_);
  std::vector<double> weights(begin, begin + learned.size());
  learned_ += weights.size();
  at::Tensor graph;
  if (output.hidden.requires_grad()) {
    graph =
        kernels::head_loss(output.hidden, *output.head.weight, learned,
                           {.kind = kernels::TokenFormula::Kind::weighted, .columns = {std::move(weights)}},
                           causal_.options(output.head));
  }
  if (!output.router_loss.defined()) return graph;
  const at::Tensor router = output.router_loss * (causal_.router_weight() / batches_);
  return graph.defined() ? graph + router : router;
}

}  // namespace trl::train
