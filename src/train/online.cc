#include "train/online.h"

#include <algorithm>
#include <numeric>

#include "base/interrupt.h"
#include "tensor/memory/rehearsal.h"
#include "train/batches.h"

namespace trl::train {

Online::Online(const MethodContext& context, bool compares)
    : arguments_(context.arguments),
      causal_(arguments_, context.model, context.attention),
      policy_(make_policy(causal_)),
      reference_(compares ? make_reference(context, causal_) : nullptr),
      share_(sharing_of(arguments_, context.model, context.attention, nullptr)) {}

TokenRows Online::reference_log_probs(const Rollout& rollout) {
  const tensor::Stage stage("reference");
  return log_probs(rollout, *reference_);
}

void Online::each_part(const Rollout& rollout, const EachPart& body) const {
  const int64_t vocab = causal_.model().config().vocab_size, all = rollout.rows();
  const int64_t rows_of_batch =
      arguments_.per_device_train_batch_size * config::sequences_per_row(arguments_);
  const int64_t most = !rollout.training             ? arguments_.per_device_eval_batch_size
                       : arguments_.method->episodes ? arguments_.online.local_rollout_forward_batch_size
                                                     : rows_of_batch;
  for (int64_t first = 0; first < all; first += most) {
    std::vector<int64_t> rows(static_cast<size_t>(std::min(most, all - first)));
    std::iota(rows.begin(), rows.end(), first);
    const data::Batch batch = batch_of(rollout, rows);
    for (const MicroBatch& part : parts_of(copied(batch, vocab, share_), arguments_.max_tokens_per_pass)) {
      base::poll();
      body(part, rows);
    }
  }
}

TokenRows Online::log_probs(const Rollout& rollout, Scorer& scorer) {
  TokenRows out;
  for (size_t row = 0; row < rollout.completions.size(); ++row) out.emplace_back(rollout.padded(row), 0.0f);
  std::vector<size_t> next(out.size(), 0);  // the token of each row after those so far
  each_part(rollout, [&](const MicroBatch& part, std::span<const int64_t> rows) {
    const std::vector<float> values = scorer.log_probs(part);
    for (size_t i = 0; i < values.size(); ++i) {
      const auto sequence = static_cast<size_t>(part.targets.sequences[i]);
      const auto row = static_cast<size_t>(rows[sequence]);
      while (!rollout.counts(row, next[row])) ++next[row];
      out[row][next[row]++] = values[i];
    }
  });
  return out;
}

loss::Rewards Online::rewards_of(const Rollout& rollout) const {
  const config::OnlineArguments& own = arguments_.online;
  const int64_t group = rollout.training ? own.num_generations : own.num_generations_eval;
  return {rollout.rewards.values, rollout.rewards.weights, static_cast<size_t>(group)};
}

void Online::take(const loss::Advantages& advantages, Rollout& rollout) const {
  rollout.advantages = advantages.values;
  for (size_t f = 0; f < rollout.rewards.names.size(); ++f) {
    rollout.metrics.emplace_back("rewards/" + rollout.rewards.names[f] + "/mean", advantages.mean[f]);
    rollout.metrics.emplace_back("rewards/" + rollout.rewards.names[f] + "/std", advantages.std[f]);
  }
  for (const auto& [name, value] : advantages.metrics()) rollout.metrics.emplace_back(name, value);
}

void Online::updated(int64_t step) {
  const config::OnlineArguments& own = arguments_.online;
  if (reference_ && own.sync_ref_model && step % own.ref_model_sync_steps == 0)
    reference_->mix(own.ref_model_mixup_alpha);
}

std::vector<optim::StateTensor> Online::state(int64_t step) {
  const config::OnlineArguments& own = arguments_.online;
  const bool mixed = reference_ && own.sync_ref_model && step >= own.ref_model_sync_steps;
  return mixed ? reference_->weights() : std::vector<optim::StateTensor>();
}

}  // namespace trl::train
