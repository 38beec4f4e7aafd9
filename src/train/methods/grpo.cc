// Group relative policy optimisation and its kin (TRL's GRPOTrainer): a completion is as good as its reward
// beside those of its group, and the policy's tokens follow.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "config/online/online_arguments.h"
#include "loss/policy/advantages.h"
#include "loss/policy/entropy_control.h"
#include "loss/policy/importance.h"
#include "train/policy/policy_loss.h"
#include "train/policy/policy_method.h"

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

loss::ImportanceOptions importance_options(const config::OnlineArguments& a) {
  using config::CorrectionMode;
  loss::ImportanceOptions options;
  switch (a.correction_mode) {
    case CorrectionMode::token_truncate:
      options.mode = loss::ImportanceMode::token_truncate;
      break;
    case CorrectionMode::token_mask:
      options.mode = loss::ImportanceMode::token_mask;
      break;
    case CorrectionMode::sequence_truncate:
      options.mode = loss::ImportanceMode::sequence_truncate;
      break;
    case CorrectionMode::sequence_mask:
      options.mode = loss::ImportanceMode::sequence_mask;
      break;
  }
  if (a.correction_min) options.least = *a.correction_min;
  options.most = a.correction_max.value_or(std::numeric_limits<double>::infinity());
  return options;
}

loss::RewardScale scale_of(config::ScaleRewards scale) {
  if (scale == config::ScaleRewards::none) return loss::RewardScale::none;
  return scale == config::ScaleRewards::batch ? loss::RewardScale::batch : loss::RewardScale::group;
}

// Log-probabilities of generation as a column; those that are not known are NaN.
TokenRows sampling_of(const Rollout& rollout) {
  TokenRows out;
  for (const engine::Completion& own : rollout.completions) {
    out.push_back(own.log_probabilities);
    out.back().resize(own.ids.size(), std::nanf(""));
  }
  return out;
}

// Says whether completions have log-probabilities that the loss compares with: in TRL those of vLLM, and of a
// function that writes completions. Ours, which have entropies too, count as vLLM's. Those of an evaluation
// at another temperature would say how far the temperatures are apart.
bool has_sampling(const Rollout& rollout, bool vllm) {
  if (!rollout.training && !rollout.tempered) return false;
  return std::ranges::any_of(rollout.completions, [&](const engine::Completion& own) {
    return !own.log_probabilities.empty() && (vllm || own.entropies.empty());
  });
}

// The coefficient of the entropy bonus, whose state is a tensor, so that a checkpoint keeps it.
class KeptControl {
 public:
  explicit KeptControl(const config::OnlineArguments& a)
      : options_{a.entropy_coef, a.entropy_coef_min, a.entropy_coef_max, a.entropy_coef_delta,
                 a.entropy_target},
        state_(at::empty({2}, at::kDouble)) {
    keep(loss::EntropyControl(options_));
  }
  double applied() const { return control().applied(); }
  void begin_window() { sum_ = tokens_ = 0; }
  void add(double sum, double tokens) {
    sum_ += sum;
    tokens_ += tokens;
  }
  void end_step() { keep(ended()); }
  double next() const { return ended().state()["entropy_coef"]; }  // the coefficient after this step
  std::string json() const { return control().state().dump(); }
  const at::Tensor& state() const { return state_; }  // the coefficient, and the last entropy; NaN: none

 private:
  loss::EntropyControl control() const {
    const double *const values = state_.data_ptr<double>(), last = values[1];
    loss::EntropyControl control(options_);
    control.restore({{"entropy_coef", values[0]},
                     {"last_world_entropy", std::isnan(last) ? base::Json() : base::Json(last)}},
                    "the entropy coefficient");
    return control;
  }
  loss::EntropyControl ended() const {
    loss::EntropyControl now = control();
    now.add(sum_, tokens_);
    now.end_step();
    return now;
  }
  void keep(const loss::EntropyControl& control) {
    const base::Json now = control.state(), &last = now["last_world_entropy"];
    state_.data_ptr<double>()[0] = now["entropy_coef"];
    state_.data_ptr<double>()[1] = last.is_null() ? std::nan("") : last.get<double>();
  }

  const loss::EntropyOptions options_;
  const at::Tensor state_;
  double sum_ = 0, tokens_ = 0;  // of the window
};

class Grpo final : public PolicyMethod {
 public:
  explicit Grpo(const MethodContext& context)
      : PolicyMethod(context, context.arguments.online.beta != 0), options_(policy_options(arguments())) {
    if (arguments().use_adaptive_entropy) control_.emplace(arguments());
  }

  void before_rewards(Rollout& rollout) override {
    const config::OnlineArguments& own = arguments();
    add_length_metrics(rollout);
    keep_generated(rollout);
    const bool samples =
        (own.corrects_sampling || own.off_policy_mask_threshold) && has_sampling(rollout, own.use_vllm);
    if (own.computes_old_logprobs) rollout.token_columns.emplace("old", old_log_probs(rollout));
    if (samples) rollout.token_columns.emplace("sampling", sampling_of(rollout));
    if (samples && own.corrects_sampling)
      add_importance(rollout);
    else if (own.computes_old_logprobs)
      add_gap(rollout.token_columns.at("old"), rollout);
    else
      keep_stated(rollout);
    if (own.beta != 0) rollout.token_columns.emplace("reference", reference_log_probs(rollout));
  }

  void after_rewards(Rollout& rollout) override {
    const config::OnlineArguments& own = arguments();
    const loss::Rewards rewards = rewards_of(rollout);
    const bool sums_first = own.multi_objective_aggregation == config::Aggregation::sum_then_normalize;
    take(sums_first ? loss::grpo_advantages(rewards, scale_of(own.scale_rewards))
                    : loss::gdpo_advantages(rewards),
         rollout);
  }

  void begin_window() override {
    if (control_) control_->begin_window();
    gap_ = {};
  }
  MethodMetrics update_metrics() const override {
    MethodMetrics all;
    if (!gap_.empty()) all = gap_.metrics();
    if (control_)
      all.emplace_back("entropy_coef", control_->next());
    else if (options_.entropy_coef)
      all.emplace_back("entropy_coef", *options_.entropy_coef);
    return all;
  }
  void updated(int64_t step) override {
    Online::updated(step);
    if (control_) control_->end_step();
  }
  std::vector<optim::StateTensor> state(int64_t step) override {
    std::vector<optim::StateTensor> all = Online::state(step);
    if (control_) all.push_back({"entropy_control", control_->state()});
    return all;
  }
  std::vector<std::pair<std::string, std::string>> checkpoint_files() const override {
    if (!control_) return {};
    return {{"entropy_ctrl_state.json", control_->json()}};
  }

 private:
  std::unique_ptr<OwnLoss> own_loss(const MicroBatch& batch, const Divisors& divisors) override {
    loss::PolicyOptions options = options_;
    PolicyValuesOf values;
    if (control_) options.entropy_coef = control_->applied();
    if (divisors.training) values = [this](const PolicyValues& own) { take_in(own); };
    return policy_loss(options, batch, divisors, static_cast<double>(arguments().steps_per_generation),
                       values);
  }
  void take_in(const PolicyValues& values) {
    if (control_)
      control_->add(std::accumulate(values.counted.begin(), values.counted.end(), 0.0),
                    static_cast<double>(values.counted.size()));
    for (size_t i = 0; i < values.stated.size(); ++i)
      gap_.add(values.log_probs[i], static_cast<double>(values.stated[i]));
  }
  bool silent_without_advantage() const override {
    return options_.beta == 0 && options_.entropy_coef.value_or(0) == 0 && !control_;
  }
  void add_importance(Rollout& rollout) const {
    const TokenRows &old = rollout.token_columns.at("old"), &sampling = rollout.token_columns.at("sampling");
    std::vector<int32_t> rows;
    std::vector<float> of_policy, of_sampler;
    const auto each = [&](const auto& body) {
      for (size_t row = 0; row < rollout.completions.size(); ++row)
        for (size_t t = 0; t < rollout.completions[row].ids.size(); ++t)
          if (rollout.learned[row] != 0 && rollout.completions[row].counts(t)) body(row, t);
    };
    each([&](size_t row, size_t t) {
      rows.push_back(static_cast<int32_t>(row));
      of_policy.push_back(old[row][t]);
      of_sampler.push_back(sampling[row][t]);
    });
    const loss::Importance importance = loss::importance_ratios(
        {rollout.completions.size(), rows, of_policy, of_sampler}, importance_options(arguments()));
    TokenRows ratios;
    for (const engine::Completion& own : rollout.completions) ratios.emplace_back(own.ids.size(), 1.0f);
    size_t next = 0;
    each([&](size_t row, size_t t) { ratios[row][t] = importance.ratios[next++]; });
    rollout.token_columns.emplace("importance", std::move(ratios));
    for (const auto& [name, value] : importance.metrics) rollout.metrics.emplace_back(name, value);
  }

  const loss::PolicyOptions options_;
  std::optional<KeptControl> control_;  // use_adaptive_entropy
  loss::SamplingGap gap_;               // of the window
};

}  // namespace

std::unique_ptr<Method> make_grpo(const MethodContext& context) { return std::make_unique<Grpo>(context); }

}  // namespace trl::train
