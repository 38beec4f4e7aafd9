// Direct preference optimisation and its kin: losses of pairs of completions, against a reference (TRL's
// DPOTrainer._compute_loss).
#include "loss/dpo.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "base/error.h"
#include "tensor/rehearsal.h"
#include "train/method.h"
#include "train/reference.h"

namespace trl::train {

namespace {

template <typename T>
T named(const std::string& name, std::initializer_list<std::pair<const char*, T>> names) {
  for (const auto& [text, value] : names)
    if (name == text) return value;
  fail(Status::internal, "'{}' has no meaning here", name);
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

// What a sequence's tokens come to. The chosen completions are the first half of a batch's sequences.
struct Sums {
  loss::Completion completion;
  double surprise = 0;  // of log p - log(sum of squared p) (WPO)
  double mean_logit = 0;
  int64_t correct = 0;
};

struct Settings {
  loss::DpoOptions options;
  bool use_weighting = false;
  std::optional<double> ld_alpha;
};

// What each target counts for, in the order of the batch's targets: 1, or ld_alpha behind the length of the
// shorter of the pair.
std::vector<double> weights_of(const MicroBatch& batch, std::optional<double> ld_alpha) {
  std::vector<double> weights(static_cast<size_t>(batch.targets.size()), 1.0);
  if (!ld_alpha) return weights;
  const std::vector<int32_t>& sequences = batch.targets.sequences;
  std::vector<int64_t> lengths(static_cast<size_t>(batch.sequences())), seen(lengths);
  for (const int32_t s : sequences) ++lengths[static_cast<size_t>(s)];
  const size_t pairs = lengths.size() / 2;
  for (size_t i = 0; i < sequences.size(); ++i) {
    const auto s = static_cast<size_t>(sequences[i]);
    if (seen[s]++ >= std::min(lengths[s % pairs], lengths[s % pairs + pairs])) weights[i] = *ld_alpha;
  }
  return weights;
}

class DpoBatchLoss final : public BatchLoss {
 public:
  // reference: of each target of the batch
  DpoBatchLoss(const Causal& causal, const Settings& settings, const MicroBatch& batch,
               std::vector<double> reference, const Divisors& divisors)
      : causal_(causal),
        settings_(settings),
        weights_(weights_of(batch, settings.ld_alpha)),
        reference_(std::move(reference)),
        sums_(static_cast<size_t>(batch.sequences())),
        batches_(divisors.batches) {
    for (size_t s = 0; s < sums_.size(); ++s) sums_[s].completion.tokens = batch.sequence_labels[s];
  }

  bool measures() const override { return true; }

  void measure(const model::Output& output, const MicroBatch& part) override {
    const tensor::Stage stage("loss");
    const std::vector<kernels::TokenValues> values =
        kernels::head_values(output.hidden, causal_.model().head(), part.targets.tokens, causal_.head());
    for (size_t i = 0; i < values.size(); ++i, ++measured_) add(part.targets.sequences[i], values[i]);
    if (output.router_loss.defined()) router_loss_ = output.router_loss.item<double>();
  }

  at::Tensor share(const model::Output& output, const MicroBatch& part) override {
    if (measured_ == 0) measure(output, part);  // the only part
    const tensor::Stage stage("loss");
    const bool first = shared_ == 0;
    if (first) result_ = loss::dpo_loss(pairs(), settings_.options);
    at::Tensor share = at::full({}, first ? result_.loss / batches_ : 0.0, at::kFloat);
    if (output.hidden.requires_grad() && at::GradMode::is_enabled()) share = share + backward(output, part);
    shared_ += part.targets.tokens.rows.size();
    if (first && output.router_loss.defined())
      share = share + output.router_loss * (causal_.router_weight() / batches_);
    return share;
  }

  MethodMetrics metrics() const override;

 private:
  void add(int32_t sequence, const kernels::TokenValues& v) {
    const double weight = weights_[measured_];
    Sums& sums = sums_[static_cast<size_t>(sequence)];
    sums.completion.logp += weight * v.log_prob;
    sums.completion.ref_logp += weight * reference_[measured_];
    sums.completion.plain_logp += v.log_prob;
    ++sums.completion.plain_tokens;
    sums.surprise += v.log_prob - v.log_square;
    sums.mean_logit += v.mean_logit;
    sums.correct += v.best;
    entropy_ += v.entropy;
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

  // Its value is 0: only its gradient is of use.
  at::Tensor backward(const model::Output& output, const MicroBatch& part) const {
    const auto term = [this, first = shared_, sequences = part.targets.sequences](
                          int64_t target, const kernels::TokenValues&) {
      const auto sequence = static_cast<size_t>(sequences[static_cast<size_t>(target)]);
      const double weight = weights_[first + static_cast<size_t>(target)];
      const double by = sequence < count() ? result_.by_chosen[sequence] * weight + result_.by_chosen_token
                                           : result_.by_rejected[sequence - count()] * weight;
      return kernels::TokenTerm{0, by / batches_};
    };
    return kernels::head_loss(output.hidden, causal_.model().head(), part.targets.tokens, term,
                              causal_.head());
  }

  const Causal& causal_;
  const Settings& settings_;
  const std::vector<double> weights_, reference_;
  std::vector<Sums> sums_;
  const double batches_;
  loss::DpoResult result_;
  double entropy_ = 0;
  size_t measured_ = 0, shared_ = 0;  // targets
  std::optional<double> router_loss_;
};

// Of tokens: means over those of all completions of a kind.
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
  if (router_loss_) metrics.emplace_back("aux_loss", *router_loss_);
  return metrics;
}

class Dpo final : public Method {
 public:
  explicit Dpo(const MethodContext& context)
      : causal_(context.arguments, context.model, context.attention),
        arguments_(context.arguments.preference),
        settings_{options_of(arguments_), arguments_.use_weighting, arguments_.ld_alpha},
        reference_(make_reference(context, causal_)) {}

  Divisors plan(std::span<const MicroBatch> window, bool) const override {
    return {1, static_cast<double>(window.size())};
  }

  model::Output forward(const MicroBatch& batch, const std::optional<Place>& training,
                        const at::Tensor& states) override {
    return causal_.forward(batch, training, states);
  }

  std::unique_ptr<BatchLoss> loss(const MicroBatch& batch, std::span<const MicroBatch> parts,
                                  const Divisors& divisors) override {
    const tensor::Stage stage("reference");
    std::vector<double> reference;
    for (const MicroBatch& part : parts) {
      const std::vector<double> own = reference_->log_probs(part);
      reference.insert(reference.end(), own.begin(), own.end());
    }
    return std::make_unique<DpoBatchLoss>(causal_, settings_, batch, std::move(reference), divisors);
  }

  void updated(int64_t step) override {
    if (arguments_.sync_ref_model && step % arguments_.ref_model_sync_steps == 0)
      reference_->mix(arguments_.ref_model_mixup_alpha);
  }

 private:
  const Causal causal_;
  const config::PreferenceArguments arguments_;
  const Settings settings_;
  const std::unique_ptr<Reference> reference_;
};

}  // namespace

std::unique_ptr<Method> make_dpo(const MethodContext& context) { return std::make_unique<Dpo>(context); }

}  // namespace trl::train
