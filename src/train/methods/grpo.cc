// Group relative policy optimisation and its kin (TRL's GRPOTrainer): a completion is as good as its reward
// beside those of its group, and the policy's tokens follow.
#include "config/online_arguments.h"
#include "loss/advantages.h"
#include "train/online.h"
#include "train/policy_loss.h"

namespace trl::train {

namespace {

loss::PolicyLoss policy_loss_of(config::PolicyLoss loss) {
  switch (loss) {
#define TRL_SAME(name)           \
  case config::PolicyLoss::name: \
    return loss::PolicyLoss::name
    TRL_SAME(grpo);
    TRL_SAME(bnpo);
    TRL_SAME(dr_grpo);
    TRL_SAME(dapo);
    TRL_SAME(cispo);
    TRL_SAME(sapo);
    TRL_SAME(luspo);
    TRL_SAME(vespo);
#undef TRL_SAME
  }
  return loss::PolicyLoss::dapo;
}

loss::PolicyOptions policy_options(const config::OnlineArguments& a) {
  loss::PolicyOptions options;
  options.loss = policy_loss_of(a.policy_loss);
  options.by_sequence = a.importance_sampling_level == config::RatioLevel::sequence;
  options.epsilon = {a.epsilon, a.epsilon_high};
  options.delta = a.delta;
  options.beta = a.beta;
  options.bias_correction = a.use_bias_correction_kl;
  options.sapo_positive = a.sapo_temperature_pos;
  options.sapo_negative = a.sapo_temperature_neg;
  options.vespo_positive = {a.vespo_k_pos, a.vespo_lambda_pos};
  options.vespo_negative = {a.vespo_k_neg, a.vespo_lambda_neg};
  options.off_policy_threshold = a.off_policy_mask_threshold;
  options.top_entropy_quantile = a.top_entropy_quantile;
  if (a.entropy_coef != 0 || a.use_adaptive_entropy) options.entropy_coef = a.entropy_coef;
  options.max_completion_length = a.max_completion_length;
  return options;
}

class Grpo final : public Online {
 public:
  explicit Grpo(const MethodContext& context)
      : Online(context, context.arguments.online.beta != 0), options_(policy_options(arguments())) {}

  void before_rewards(Rollout& rollout) override {
    if (arguments().computes_old_logprobs)
      rollout.token_columns.emplace("old", policy_log_probs(rollout));
    if (arguments().beta != 0) rollout.token_columns.emplace("reference", reference_log_probs(rollout));
  }

  void after_rewards(Rollout& rollout) override {}

  std::unique_ptr<BatchLoss> loss(const MicroBatch& batch, std::span<const MicroBatch>,
                                  const Divisors& divisors) override {
    return policy_loss(causal(), options_, batch, divisors,
                       static_cast<double>(arguments().steps_per_generation));
  }

 private:
  const loss::PolicyOptions options_;
};

}  // namespace

std::unique_ptr<Method> make_grpo(const MethodContext& context) { return std::make_unique<Grpo>(context); }

}  // namespace trl::train
