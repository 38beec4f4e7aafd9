#include "train/policy/online.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/interrupt.h"
#include "loss/policy/importance.h"
#include "tensor/memory/rehearsal.h"
#include "tensor/parts.h"
#include "train/batches/batches.h"

namespace trl::train {

Online::Online(const MethodContext& context, bool compares)
    : arguments_(context.arguments),
      causal_(arguments_, context.model, context.attention),
      policy_(make_policy(causal_)),
      reference_(compares ? make_reference(context, causal_) : nullptr),
      share_(sharing_of(arguments_, context.model, context.attention, nullptr)) {}

TokenRows Online::old_log_probs(const Rollout& rollout) {
  if (!rollout.exact) {
    const tensor::Timed timed(tensor::Part::old);
    return log_probs(rollout, *policy_);
  }
  TokenRows rows;
  for (const engine::Completion& own : rollout.completions) rows.push_back(own.log_probabilities);
  return rows;
}

TokenRows Online::reference_log_probs(const Rollout& rollout) {
  const tensor::Timed timed(tensor::Part::reference);
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
  const auto each_batch = [&](int64_t size, const auto& take) {
    for (int64_t first = 0; first < all; first += size) {
      std::vector<int64_t> rows(static_cast<size_t>(std::min(size, all - first)));
      std::iota(rows.begin(), rows.end(), first);
      take(batch_of(rollout, rows), rows);
    }
  };
  const auto run = [&](const data::Batch& batch, const std::vector<int64_t>& rows, int64_t most_tokens) {
    std::optional<data::TreeLimits> share = share_;
    if (share) share->most = std::min(share->most, most_tokens);
    for (const MicroBatch& part : parts_of(copied(batch, vocab, share), most_tokens)) {
      base::poll();
      body(part, rows);
    }
  };
  const int64_t most_tokens = arguments_.max_tokens_per_pass.value_or(std::numeric_limits<int64_t>::max());
  if (!share_)
    return each_batch(most,
                      [&](const data::Batch& batch, const auto& rows) { run(batch, rows, most_tokens); });
  // Whole groups share their prompts, in parts no larger than the largest batch.
  int64_t largest = 0;
  each_batch(most, [&](const data::Batch& batch, const auto&) {
    largest = std::max(largest, copied(batch, vocab, share_).input_ids.numel());
  });
  each_batch(all, [&](const data::Batch& batch, const auto& rows) {
    run(batch, rows, std::min(most_tokens, largest));
  });
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

void Online::add_gap(const TokenRows& log_probs, Rollout& rollout) const {
  if (!rollout.stated || rollout.exact) return;
  loss::SamplingGap gap;
  for (size_t row = 0; row < rollout.completions.size(); ++row) {
    const engine::Completion& own = rollout.completions[row];
    if (rollout.learned[row] == 0) continue;
    for (size_t t = 0; t < std::min(log_probs[row].size(), own.log_probabilities.size()); ++t)
      if (own.counts(t))
        gap.add(static_cast<double>(log_probs[row][t]), static_cast<double>(own.log_probabilities[t]));
  }
  if (gap.empty()) return;
  for (const auto& [name, value] : gap.metrics()) rollout.metrics.emplace_back(name, value);
}

void Online::keep_stated(Rollout& rollout) const {
  if (!rollout.training || !rollout.stated || rollout.exact) return;
  TokenRows& rows = rollout.token_columns[kStated];
  for (size_t row = 0; row < rollout.completions.size(); ++row) {
    rows.push_back(rollout.completions[row].log_probabilities);
    rows.back().resize(rollout.padded(row), std::nanf(""));
  }
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
