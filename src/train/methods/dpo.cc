// Direct preference optimisation and its kin: losses of pairs of completions, against a reference (TRL's
// DPOTrainer._compute_loss).
#include "loss/dpo.h"

#include <algorithm>

#include "base/error.h"
#include "train/batch_loss.h"
#include "train/method.h"
#include "train/scoring/scorer.h"

namespace trl::train {

namespace {

template <typename T>
T named(const std::string& name, std::initializer_list<std::pair<const char*, T>> names) {
  for (const auto& [text, value] : names)
    if (name == text) return value;
  fail(Status::internal, "'{}' is not supported here", name);
}

loss::DpoLoss loss_named(const std::string& name) {
  using loss::DpoLoss;
  return named<DpoLoss>(name, {{"sigmoid", DpoLoss::sigmoid},
                               {"hinge", DpoLoss::hinge},
                               {"ipo", DpoLoss::ipo},
                               {"exo_pair", DpoLoss::exo_pair},
                               {"nca_pair", DpoLoss::nca_pair},
                               {"robust", DpoLoss::robust},
                               {"bco_pair", DpoLoss::bco_pair},
                               {"sppo_hard", DpoLoss::sppo_hard},
                               {"aot", DpoLoss::aot},
                               {"aot_unpaired", DpoLoss::aot_unpaired},
                               {"apo_zero", DpoLoss::apo_zero},
                               {"apo_down", DpoLoss::apo_down},
                               {"discopop", DpoLoss::discopop},
                               {"sft", DpoLoss::sft},
                               {"sigmoid_norm", DpoLoss::sigmoid_norm}});
}

loss::DpoOptions options_of(const config::PreferenceArguments& arguments) {
  using loss::Divergence;
  loss::DpoOptions options;
  options.losses.clear();
  for (const auto& [name, weight] : arguments.losses) options.losses.emplace_back(loss_named(name), weight);
  options.beta = arguments.beta;
  options.label_smoothing = arguments.label_smoothing;
  options.discopop_tau = arguments.discopop_tau;
  options.alpha = arguments.f_alpha_divergence_coef;
  options.divergence =
      named<Divergence>(arguments.f_divergence_type, {{"reverse_kl", Divergence::reverse_kl},
                                                      {"forward_kl", Divergence::forward_kl},
                                                      {"js_divergence", Divergence::js_divergence},
                                                      {"alpha_divergence", Divergence::alpha_divergence}});
  return options;
}

// The sums over a sequence's tokens. The chosen completions are the first half of a batch's sequences.
struct Sums {
  loss::Completion completion;
  double surprise = 0;  // sum of log p - log(sum of squared p) (WPO)
  double mean_logit = 0;
  int64_t correct = 0;
};

struct Settings {
  loss::DpoOptions options;
  bool use_weighting = false;
  std::optional<double> ld_alpha;
};

// Returns the weight of each target, in the order of the batch's targets: 1, or ld_alpha past the length of
// the shorter of the pair.
std::vector<double> weights_of(const MicroBatch& batch, std::optional<double> ld_alpha) {
  std::vector<double> weights(static_cast<size_t>(batch.targets.size()), 1.0);
  if (!ld_alpha) return weights;
  const std::vector<int32_t>& sequences = batch.targets.sequences;
  std::vector<int64_t> lengths(static_cast<size_t>(batch.sequence_count())), seen(lengths);
  for (const int32_t s : sequences) ++lengths[static_cast<size_t>(s)];
  const size_t pairs = lengths.size() / 2;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const auto s = static_cast<size_t>(sequences[i]);
    if (seen[s]++ >= std::min(lengths[s % pairs], lengths[s % pairs + pairs])) weights[i] = *ld_alpha;
  }
  return weights;
}

class DpoBatchLoss final : public SequenceLoss {
 public:
  // reference: one value for each target of the batch
  DpoBatchLoss(const Causal& causal, const Settings& settings, const MicroBatch& batch,
               std::vector<float> reference, const Divisors& divisors)
      : SequenceLoss(causal, divisors),
        settings_(settings),
        weights_(weights_of(batch, settings.ld_alpha)),
        reference_(std::move(reference)),
        sums_(static_cast<size_t>(batch.sequence_count())) {
    for (size_t s = 0; s < sums_.size(); ++s) sums_[s].completion.tokens = batch.sequence_labels[s];
  }

  MethodMetrics metrics() const override;

 private:
  void add(size_t target, int32_t sequence, const kernels::TokenValues& v) override {
    const double weight = weights_[target];
    Sums& sums = sums_[static_cast<size_t>(sequence)];
    sums.completion.logp += weight * v.log_prob;
    sums.completion.ref_logp += weight * static_cast<double>(reference_[target]);
    sums.completion.plain_logp += v.log_prob;
    ++sums.completion.plain_tokens;
    sums.surprise += v.log_prob - v.log_square;
    sums.mean_logit += v.mean_logit;
    sums.correct += v.best;
    entropy_ += v.entropy;
  }

  double value() override {
    result_ = loss::dpo_loss(pairs(), settings_.options);
    return result_.loss;
  }

  double slope(size_t target, int32_t of) const override {
    const auto sequence = static_cast<size_t>(of);
    return sequence < count() ? result_.by_chosen[sequence] * weights_[target] + result_.by_chosen_token
                              : result_.by_rejected[sequence - count()] * weights_[target];
  }

  size_t count() const { return sums_.size() / 2; }

  std::vector<loss::Pair> pairs() const {
    const auto mean = [](const Sums& s) {
      return s.surprise / static_cast<double>(std::max<int64_t>(s.completion.plain_tokens, 1));
    };
    std::vector<loss::Pair> pairs;
    for (size_t i = 0; i < count(); ++i) {
      const Sums &chosen = sums_[i], &rejected = sums_[count() + i];
      pairs.push_back({chosen.completion, rejected.completion});
      if (settings_.use_weighting) pairs.back().weight = loss::wpo_weight(mean(chosen), mean(rejected));
    }
    return pairs;
  }

  const Settings& settings_;
  const std::vector<double> weights_;
  const std::vector<float> reference_;
  std::vector<Sums> sums_;
  loss::DpoResult result_;
  double entropy_ = 0;
};

// Returns the metrics. Per-token metrics are averaged over all chosen, or all rejected, tokens.
MethodMetrics DpoBatchLoss::metrics() const {
  struct Side {
    double logps = 0, rewards = 0, logits = 0;
    int64_t tokens = 0, correct = 0;
  };
  Side chosen, rejected;
  double right = 0, margins = 0;
  const auto pairs = static_cast<double>(std::max<size_t>(count(), 1));
  const auto add = [&](Side& side, const Sums& s) {
    const double reward = settings_.options.beta * s.completion.ratio();
    side.logps += s.completion.logp / pairs;
    side.rewards += reward / pairs;
    side.logits += s.mean_logit;
    side.tokens += s.completion.plain_tokens;
    side.correct += s.correct;
    return reward;
  };
  for (size_t i = 0; i < count(); ++i) {
    const double a = add(chosen, sums_[i]), b = add(rejected, sums_[count() + i]);
    right += a > b ? 1 / pairs : 0;
    margins += (a - b) / pairs;
  }
  const auto over = [](double sum, int64_t tokens) {
    return sum / static_cast<double>(std::max<int64_t>(tokens, 1));
  };
  MethodMetrics metrics = {{"entropy", over(entropy_, chosen.tokens + rejected.tokens)},
                           {"logits/chosen", over(chosen.logits, chosen.tokens)},
                           {"logits/rejected", over(rejected.logits, rejected.tokens)},
                           {"mean_token_accuracy", over(static_cast<double>(chosen.correct), chosen.tokens)},
                           {"rewards/chosen", chosen.rewards},
                           {"rewards/rejected", rejected.rewards},
                           {"rewards/accuracies", right},
                           {"rewards/margins", margins},
                           {"logps/chosen", chosen.logps},
                           {"logps/rejected", rejected.logps}};
  if (router_loss()) metrics.emplace_back("aux_loss", *router_loss());
  return metrics;
}

class Dpo final : public Referenced {
 public:
  explicit Dpo(const MethodContext& context)
      : Referenced(context),
        settings_{options_of(context.arguments.preference), context.arguments.preference.use_weighting,
                  context.arguments.preference.ld_alpha} {}

  std::unique_ptr<BatchLoss> loss(const MicroBatch& batch, std::span<const MicroBatch> parts,
                                  const Divisors& divisors) override {
    return std::make_unique<DpoBatchLoss>(causal(), settings_, batch, reference(parts), divisors);
  }

 private:
  const Settings settings_;
};

}  // namespace

std::unique_ptr<Method> make_dpo(const MethodContext& context) { return std::make_unique<Dpo>(context); }

}  // namespace trl::train
