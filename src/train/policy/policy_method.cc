#include "train/policy/policy_method.h"

#include "train/batches/batches.h"

namespace trl::train {

namespace {

// Chance and the routers' loss depend on the micro-batch that a row is in, an entropy's quantile on the
// micro-batch's rows; updates within backward need one backward.
bool sums_rows(const config::TrainingArguments& arguments, const Causal& causal) {
  return arguments.online.top_entropy_quantile == 1 && !arguments.optimizer_in_backward &&
         !draws_by_row(arguments, causal.model()) && !causal.has_router_loss();
}

}  // namespace

PolicyMethod::PolicyMethod(const MethodContext& context, bool compares)
    : Online(context, compares), joins_(sums_rows(all_arguments(), causal())) {}

void PolicyMethod::keep_generated(Rollout& rollout) const {
  if (!rollout.exact || !skips_silent()) return;
  TokenRows &log_probs = rollout.token_columns[kGenerated],
            &entropies = rollout.token_columns[kGeneratedEntropy];
  for (const engine::Completion& own : rollout.completions) {
    log_probs.push_back(own.log_probabilities);
    entropies.push_back(own.entropies);
  }
}

std::unique_ptr<BatchLoss> PolicyMethod::joint_loss(std::span<const MicroBatch> batches, const Joint& joint,
                                                    const Divisors& divisors) {
  std::vector<std::unique_ptr<OwnLoss>> own;
  for (const MicroBatch& batch : batches) own.push_back(own_loss(batch, divisors));
  return std::make_unique<JointLoss>(causal(), batches, joint, std::move(own), divisors);
}

}  // namespace trl::train
