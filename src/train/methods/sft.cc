// Supervised fine-tuning: the next-token loss over labels (TRL's SFTTrainer.compute_loss).
#include <algorithm>
#include <numeric>

#include "tensor/memory/rehearsal.h"
#include "train/method.h"

namespace trl::train {

namespace {

// A sum over tokens. The routers' loss, if the model has one, is over the whole micro-batch.
class SftBatchLoss final : public SummedLoss {
 public:
  SftBatchLoss(const Causal& causal, const kernels::TokenFormula& formula, const Divisors& divisors)
      : causal_(causal), formula_(formula), router_weight_(causal.router_weight() / divisors.batches) {
    // A window without a target has loss 0, not 0 / 0 (SFTTrainer.compute_loss clamps in the same way).
    formula_.scale = 1.0 / std::max(divisors.items, 1.0);
  }

  MethodMetrics metrics() const override {
    const auto count = static_cast<double>(std::max<int64_t>(count_, 1));
    MethodMetrics metrics = {{"entropy", entropy_ / count},
                             {"mean_token_accuracy", static_cast<double>(correct_) / count}};
    if (router_loss_) metrics.emplace_back("aux_loss", *router_loss_);
    return metrics;
  }

 private:
  Share share(const model::Output& output, const MicroBatch& part) override {
    const tensor::Stage stage("loss");
    std::vector<kernels::TokenValues> values;
    at::Tensor loss = kernels::head_loss(output.hidden, *output.head.weight, part.targets.tokens, formula_,
                                         causal_.options(output.head), &values);
    double entropy = 0;
    for (const kernels::TokenValues& v : values) {
      entropy += v.entropy;
      correct_ += v.best;
    }
    entropy_ += entropy;
    count_ += std::ssize(values);
    if (output.router_loss.defined()) {
      router_loss_ = output.router_loss.item<double>();
      // TRL's smoothed loss leaves the routers' loss out.
      if (formula_.kind != kernels::TokenFormula::Kind::smoothed)
        loss = loss + output.router_loss * router_weight_;
    }
    return {loss.item<float>(), loss};
  }

  const Causal& causal_;
  kernels::TokenFormula formula_;
  const double router_weight_;
  double entropy_ = 0;
  int64_t correct_ = 0, count_ = 0;
  std::optional<double> router_loss_;
};

kernels::TokenFormula formula_of(const config::TrainingArguments& arguments) {
  using Kind = kernels::TokenFormula::Kind;
  const double smoothing = arguments.label_smoothing_factor;
  if (smoothing != 0) return {.kind = Kind::smoothed, .coefficients = {smoothing}};
  return {.kind = arguments.dft ? Kind::dft : Kind::nll};
}

class Sft final : public Method {
 public:
  explicit Sft(const MethodContext& context)
      : causal_(context.arguments, context.model, context.attention),
        formula_(formula_of(context.arguments)) {}

  Divisors divisors(std::span<const MicroBatch> window, bool training) const override {
    const bool all = training && causal_.model().config().family->counts_first_labels;
    int64_t items = 0;
    for (const MicroBatch& batch : window) {
      const std::vector<int32_t>& labels = batch.sequence_labels;
      items += all ? std::accumulate(labels.begin(), labels.end(), int64_t{0}) : batch.targets.size();
    }
    return {static_cast<double>(items), static_cast<double>(window.size()), training};
  }

  model::Output forward(const MicroBatch& batch, const std::optional<RunPosition>& training,
                        const at::Tensor& states) override {
    return causal_.forward(batch, training, states);
  }

  bool measures_perplexity() const override {
    return formula_.kind == kernels::TokenFormula::Kind::nll && causal_.router_weight() == 0;
  }

  std::unique_ptr<BatchLoss> loss(const MicroBatch&, std::span<const MicroBatch>,
                                  const Divisors& divisors) override {
    return std::make_unique<SftBatchLoss>(causal_, formula_, divisors);
  }

 private:
  const Causal causal_;
  const kernels::TokenFormula formula_;
};

}  // namespace

std::unique_ptr<Method> make_sft(const MethodContext& context) { return std::make_unique<Sft>(context); }

}  // namespace trl::train
