// Online DPO (TRL's OnlineDPOTrainer): of two completions of a prompt rewards choose one, and DPO learns from
// the pair. The rows of a rollout are the first completion of each prompt, then the second of each.
#include "loss/online_dpo.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "loss/policy/importance.h"
#include "train/policy/online.h"
#include "train/scoring/scores.h"

namespace trl::train {

namespace {

class OnlineDpoLoss final : public SequenceLoss {
 public:
  // accumulated: micro-batches of an update. TRL adds up their gradients, and divides only the loss that is
  // reported.
  OnlineDpoLoss(const Causal& causal, const loss::OnlineDpoOptions& options, const MicroBatch& batch,
                const Divisors& divisors, int64_t accumulated)
      : SequenceLoss(causal, divisors),
        options_(options),
        accumulated_(static_cast<double>(accumulated)),
        reference_(batch.targets.columns.at("reference")),
        is_padding_(batch.targets.columns.at(std::string(data::kPadding))),
        stated_(batch.targets.columns.contains(kStated) ? &batch.targets.columns.at(kStated) : nullptr),
        completions_(static_cast<size_t>(batch.sequence_count())) {
    const std::vector<float>&rewards = batch.columns.at("rewards"), &ended = batch.columns.at("ended"),
          &scored = batch.columns.at("scored");
    for (size_t row = 0; row < completions_.size(); ++row) {
      completions_[row].reward = static_cast<double>(rewards[row]);
      completions_[row].ended = ended[row] != 0;
      completions_[row].scored = scored[row] != 0;
    }
  }

  MethodMetrics metrics() const override {
    MethodMetrics all(result_.metrics.begin(), result_.metrics.end());
    if (gap_.empty()) return all;
    const loss::Metrics gap = gap_.metrics();
    all.insert(all.end(), gap.begin(), gap.end());
    return all;
  }

 private:
  void add(size_t target, int32_t sequence, const kernels::TokenValues& values) override {
    loss::OnlineCompletion& own = completions_[static_cast<size_t>(sequence)];
    const auto reference = static_cast<double>(reference_[target]);
    own.padded_logp += values.log_prob;
    own.padded_ref_logp += reference;
    if (!learns(target, sequence)) return;
    own.logp += values.log_prob;
    own.ref_logp += reference;
    if (stated_ != nullptr) gap_.add(values.log_prob, static_cast<double>((*stated_)[target]));
  }
  double value() override {
    result_ = loss::online_dpo_loss(completions_, options_);
    return result_.loss / accumulated_;
  }
  double slope(size_t, int32_t sequence) const override {
    return result_.by_logp[static_cast<size_t>(sequence)];
  }
  bool learns(size_t target, int32_t) const override { return is_padding_[target] == 0; }

  const loss::OnlineDpoOptions options_;
  const double accumulated_;
  const std::vector<float>&reference_, &is_padding_;  // by target
  const std::vector<float>* const stated_;            // likewise, or null
  loss::SamplingGap gap_;
  std::vector<loss::OnlineCompletion> completions_;
  loss::OnlineDpoResult result_;
};

// Sums a completion's rewards in float32, as TRL does: equal sums have no order. Nothing counts 0.
float sum_of_rewards(const engine::Rewards& rewards, size_t row) {
  const size_t functions = rewards.names.size();
  float sum = 0;
  for (size_t f = 0; f < functions; ++f) {
    const double value = rewards.values[row * functions + f];
    if (!std::isnan(value)) sum += static_cast<float>(value) * static_cast<float>(rewards.weights[f]);
  }
  return sum;
}

bool is_scored(const engine::Rewards& rewards, size_t row) {
  const size_t functions = rewards.names.size();
  return !std::ranges::all_of(std::span(rewards.values).subspan(row * functions, functions),
                              [](double value) { return std::isnan(value); });
}

class OnlineDpo final : public Online {
 public:
  explicit OnlineDpo(const MethodContext& context)
      : Online(context, /*compares=*/true),
        accumulated_(context.arguments.gradient_accumulation_steps),
        pad_(pad_of(context)) {}

  // Gradients of micro-batches are added up.
  Divisors divisors(std::span<const MicroBatch>, bool training) const override {
    return {.batches = 1, .training = training};
  }

  void before_rewards(Rollout& rollout) override {
    cut_prompts(rollout);
    rollout.pad = pad_;
    TokenRows is_padding;
    for (size_t row = 0; row < rollout.completions.size(); ++row) {
      std::vector<float>& own = is_padding.emplace_back(rollout.padded(row), 0.0f);
      std::fill_n(own.rbegin(), rollout.padding(row), 1.0f);
    }
    rollout.token_columns.emplace(data::kPadding, std::move(is_padding));
    rollout.token_columns.emplace("reference", reference_log_probs(rollout));
    keep_stated(rollout);
  }

  void after_rewards(Rollout& rollout) override {
    for (size_t row = 0; row < rollout.completions.size(); ++row) {
      rollout.columns["rewards"].push_back(sum_of_rewards(rollout.rewards, row));
      // without a judge, a pair without rewards is learned from, too, as in TRL
      const bool scored = arguments().judge.empty() || is_scored(rollout.rewards, row);
      rollout.columns["scored"].push_back(scored ? 1 : 0);
      rollout.columns["ended"].push_back(rollout.ended[row]);
      rollout.columns["epoch"].push_back(static_cast<float>(rollout.epoch));
    }
  }

  std::unique_ptr<BatchLoss> loss(const MicroBatch& batch, std::span<const MicroBatch>,
                                  const Divisors& divisors) override {
    const config::OnlineArguments& own = arguments();
    loss::OnlineDpoOptions options;
    if (own.pair_loss == config::PairLoss::ipo) options.loss = loss::DpoLoss::ipo;
    const auto epoch = static_cast<size_t>(batch.columns.at("epoch").front());
    options.beta = own.betas[std::min(epoch, own.betas.size() - 1)];
    options.missing_eos_penalty = own.missing_eos_penalty;
    return std::make_unique<OnlineDpoLoss>(causal(), options, batch, divisors, accumulated_);
  }

 private:
  // Returns the token of padding, whose values TRL's objective/* count; none where the attention takes rows
  // as they are: the metrics are then of the completions alone.
  static std::optional<int32_t> pad_of(const MethodContext& context) {
    const config::TrainingArguments& arguments = context.arguments;
    if (context.attention != nullptr || arguments.generation_exact || !arguments.cache_frozen_layers.empty())
      return std::nullopt;
    const int32_t pad = padding_of(context.model);
    return pad >= 0 ? std::optional(pad) : std::nullopt;
  }

  // Prompts lose their start if they are longer than max_length with the longest completion of the batch. The
  // last token stays, because the first one of a completion is predicted from it. Generation saw them whole.
  void cut_prompts(Rollout& rollout) const {
    if (!arguments().max_length) return;
    const auto room = std::max<int64_t>(1, *arguments().max_length - rollout.width());
    for (std::vector<int32_t>& prompt : rollout.prompts.ids) {
      if (std::ssize(prompt) <= room) continue;
      prompt.erase(prompt.begin(), prompt.end() - room);
      rollout.stated = rollout.exact = false;
    }
  }

  const int64_t accumulated_;
  const std::optional<int32_t> pad_;
};

}  // namespace

std::unique_ptr<Method> make_online_dpo(const MethodContext& context) {
  return std::make_unique<OnlineDpo>(context);
}

}  // namespace trl::train
