#include "train/sequence_loss.h"

#include <ATen/core/grad_mode.h>

#include <utility>

#include "tensor/memory/rehearsal.h"

namespace trl::train {

void SequenceLoss::measure(const model::Output& output, const MicroBatch& part) {
  const tensor::Stage stage("loss");
  std::vector<kernels::TokenValues> values = kernels::head_values(
      output.hidden, *output.head.weight, part.targets.tokens, causal_.options(output.head));
  for (size_t i = 0; i < values.size(); ++i) {
    // rounds to float32, as TRL and the reference do: two equal models then have no difference
    values[i].log_prob = static_cast<double>(static_cast<float>(values[i].log_prob));
    add(measured_++, part.targets.sequences[i], values[i]);
  }
  if (output.router_loss.defined()) router_loss_ = output.router_loss.item<double>();
}

at::Tensor SequenceLoss::share(const model::Output& output, const MicroBatch& part) {
  if (measured_ == 0) measure(output, part);  // the only part
  const tensor::Stage stage("loss");
  const bool first = !std::exchange(has_shared_, true);
  at::Tensor share = at::full({}, first ? value_measured() : 0.0, at::kFloat);
  if (output.hidden.requires_grad() && at::GradMode::is_enabled()) share = share + backward(output, part);
  shared_ += part.targets.tokens.rows.size();
  if (first && output.router_loss.defined())
    share = share + output.router_loss * (causal_.router_weight() / batches_);
  return share;
}

// Returns a loss whose value is 0: only its gradient is used.
at::Tensor SequenceLoss::backward(const model::Output& output, const MicroBatch& part) const {
  kernels::HeadTargets learned;
  std::vector<double> slopes;
  for (size_t i = 0; i < part.targets.sequences.size(); ++i) {
    const int32_t sequence = part.targets.sequences[i];
    if (!learns(sequence)) continue;
    learned.rows.push_back(part.targets.tokens.rows[i]);
    learned.tokens.push_back(part.targets.tokens.tokens[i]);
    slopes.push_back(slope(shared_ + i, sequence) / batches_);
  }
  const auto term = [slopes = std::move(slopes)](int64_t target, const kernels::TokenValues&) {
    return kernels::TokenTerm{0, slopes[static_cast<size_t>(target)]};
  };
  return kernels::head_loss(output.hidden, *output.head.weight, learned, term, causal_.options(output.head));
}

}  // namespace trl::train
