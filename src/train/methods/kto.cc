// Kahneman-Tversky optimisation: losses of single completions that are desirable or not, against a reference
// (TRL's KTOTrainer._compute_loss).
#include "loss/kto.h"

#include <algorithm>

#include "base/error.h"
#include "tensor/memory/rehearsal.h"
#include "train/batch_loss.h"
#include "train/method.h"
#include "train/scoring/scorer.h"

namespace trl::train {

namespace {

loss::KtoOptions kto_options(const config::PreferenceArguments& arguments) {
  const bool apo = arguments.losses.at(0).first == "apo_zero_unpaired";
  return {apo ? loss::KtoLoss::apo_zero_unpaired : loss::KtoLoss::kto, arguments.beta,
          arguments.desirable_weight, arguments.undesirable_weight};
}

// The sums over the targets of a sequence.
struct Completion {
  double logp = 0, ref_logp = 0;
  double mean_logit = 0;
  int64_t tokens = 0;
  double ratio() const { return logp - ref_logp; }
};

// Returns the labels of the first `rows` sequences; the others are their prompts with completions of other
// rows.
std::vector<uint8_t> labels_of(const MicroBatch& batch) {
  const auto rows = static_cast<size_t>(batch.rows);
  const auto column = batch.columns.find("label");
  if (column == batch.columns.end() && tensor::Rehearsal::current() != nullptr)
    return std::vector<uint8_t>(rows, 1);
  if (column == batch.columns.end() || column->second.size() < rows)
    fail(Status::internal, "a batch of {} unpaired rows has no column 'label' of as many values", rows);
  return {column->second.begin(), column->second.begin() + static_cast<std::ptrdiff_t>(rows)};
}

class KtoBatchLoss final : public SequenceLoss {
 public:
  // reference: one value for each target of the batch
  KtoBatchLoss(const Causal& causal, const loss::KtoOptions& options, const MicroBatch& batch,
               std::vector<float> reference, const Divisors& divisors)
      : SequenceLoss(causal, divisors),
        options_(options),
        labels_(labels_of(batch)),
        reference_(std::move(reference)),
        completions_(static_cast<size_t>(batch.sequence_count())) {}

  MethodMetrics metrics() const override;

 private:
  void add(size_t target, int32_t sequence, const kernels::TokenValues& v) override {
    Completion& completion = completions_[static_cast<size_t>(sequence)];
    completion.logp += v.log_prob;
    completion.ref_logp += static_cast<double>(reference_[target]);
    completion.mean_logit += v.mean_logit;
    ++completion.tokens;
    if (learns(target, sequence)) entropy_ += v.entropy;
  }

  double value() override {
    std::vector<loss::KtoRow> rows;
    std::vector<double> others;
    for (size_t s = 0; s < completions_.size(); ++s) {
      const double ratio = completions_[s].ratio();
      if (s < labels_.size())
        rows.push_back({ratio, labels_[s] != 0});
      else
        others.push_back(ratio);
    }
    baseline_ = loss::kto_baseline(others);
    result_ = loss::kto_loss(rows, baseline_, options_);
    return result_.loss;
  }

  double slope(size_t, int32_t sequence) const override {
    return result_.by_ratio[static_cast<size_t>(sequence)];
  }
  bool learns(size_t, int32_t sequence) const override {
    return static_cast<size_t>(sequence) < labels_.size();
  }

  const loss::KtoOptions& options_;
  const std::vector<uint8_t> labels_;
  const std::vector<float> reference_;
  std::vector<Completion> completions_;
  double entropy_ = 0, baseline_ = 0;
  loss::KtoResult result_;
};

// A label that no row of the micro-batch has adds nothing to the means of its metrics.
MethodMetrics KtoBatchLoss::metrics() const {
  struct Side {
    double rows = 0, logps = 0, rewards = 0, logits = 0;
    int64_t tokens = 0;
    double mean_logit() const { return logits / static_cast<double>(std::max<int64_t>(tokens, 1)); }
  };
  Side desirable, undesirable;
  for (size_t i = 0; i < labels_.size(); ++i) {
    const Completion& completion = completions_[i];
    Side& side = labels_[i] != 0 ? desirable : undesirable;
    ++side.rows;
    side.logps += completion.logp;
    side.rewards += options_.beta * completion.ratio();
    side.logits += completion.mean_logit;
    side.tokens += completion.tokens;
  }
  const int64_t tokens = std::max<int64_t>(desirable.tokens + undesirable.tokens, 1);
  MethodMetrics metrics = {{"kl", baseline_}, {"entropy", entropy_ / static_cast<double>(tokens)}};
  if (desirable.rows > 0) {
    metrics.emplace_back("logits/chosen", desirable.mean_logit());
    metrics.emplace_back("rewards/chosen", desirable.rewards / desirable.rows);
    metrics.emplace_back("logps/chosen", desirable.logps / desirable.rows);
  }
  if (undesirable.rows > 0) {
    metrics.emplace_back("logits/rejected", undesirable.mean_logit());
    metrics.emplace_back("rewards/rejected", undesirable.rewards / undesirable.rows);
    metrics.emplace_back("logps/rejected", undesirable.logps / undesirable.rows);
  }
  if (desirable.rows > 0 && undesirable.rows > 0)
    metrics.emplace_back("rewards/margins",
                         desirable.rewards / desirable.rows - undesirable.rewards / undesirable.rows);
  if (router_loss()) metrics.emplace_back("aux_loss", *router_loss());
  return metrics;
}

class Kto final : public Referenced {
 public:
  explicit Kto(const MethodContext& context)
      : Referenced(context), options_(kto_options(context.arguments.preference)) {}

  // The routers' loss is over the completions only: TRL sends the others through the model separately.
  model::Output forward(const MicroBatch& batch, const std::optional<RunPosition>& training,
                        const at::Tensor& states) override {
    const std::vector<int32_t>& borders = batch.segments->cu_seqlens;
    const auto rows = static_cast<size_t>(batch.rows);  // parts, which may have fewer rows, have no such loss
    return causal().forward(batch, training, states, rows < borders.size() ? borders[rows] : 0);
  }

  std::unique_ptr<BatchLoss> loss(const MicroBatch& batch, std::span<const MicroBatch> parts,
                                  const Divisors& divisors) override {
    return std::make_unique<KtoBatchLoss>(causal(), options_, batch, reference(parts), divisors);
  }

 private:
  const loss::KtoOptions options_;
};

}  // namespace

std::unique_ptr<Method> make_kto(const MethodContext& context) { return std::make_unique<Kto>(context); }

}  // namespace trl::train
