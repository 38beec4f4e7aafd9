// Supervised fine-tuning: the next-token loss over labels (TRL's SFTTrainer.compute_loss).
#include "loss/sft.h"
#include "tensor/memory/rehearsal.h"
#include "train/method.h"

namespace trl::train {

namespace {

// A sum over tokens; the routers' loss, if the model has one, is over the whole micro-batch.
class SftBatchLoss final : public BatchLoss {
 public:
  SftBatchLoss(const Causal& causal, const loss::TokenCost& cost, const Divisors& divisors)
      : causal_(causal),
        cost_(cost),
        items_(divisors.items),
        router_weight_(causal.router_weight() / divisors.batches) {}

  at::Tensor share(const model::Output& output, const MicroBatch& part) override {
    const tensor::Stage stage("loss");
    const loss::SftLoss sft = loss::sft_loss(output.hidden, *output.head.weight, part.targets.tokens, items_,
                                             cost_, causal_.options(output.head));
    entropy_ += sft.entropy;
    correct_ += sft.correct;
    count_ += sft.count;
    if (!output.router_loss.defined()) return sft.loss;
    router_loss_ = output.router_loss.item<double>();
    // TRL's smoothed loss leaves the routers' loss out.
    return cost_.smoothing == 0 ? sft.loss + output.router_loss * router_weight_ : sft.loss;
  }

  MethodMetrics metrics() const override {
    const auto count = static_cast<double>(std::max<int64_t>(count_, 1));
    MethodMetrics metrics = {{"entropy", entropy_ / count},
                             {"mean_token_accuracy", static_cast<double>(correct_) / count}};
    if (router_loss_) metrics.emplace_back("aux_loss", *router_loss_);
    return metrics;
  }

 private:
  const Causal& causal_;
  const loss::TokenCost& cost_;
  const double items_, router_weight_;
  double entropy_ = 0;
  int64_t correct_ = 0, count_ = 0;
  std::optional<double> router_loss_;
};

class Sft final : public Method {
 public:
  explicit Sft(const MethodContext& context)
      : causal_(context.arguments, context.model, context.attention),
        cost_{context.arguments.label_smoothing_factor, context.arguments.dft} {}

  Divisors divisors(std::span<const MicroBatch> window, bool training) const override {
    const bool all = training && causal_.model().config().family->counts_first_labels;
    int64_t items = 0;
    for (const MicroBatch& batch : window) items += all ? batch.labels : batch.targets.size();
    return {static_cast<double>(items), static_cast<double>(window.size())};
  }

  model::Output forward(const MicroBatch& batch, const std::optional<RunPosition>& training,
                        const at::Tensor& states) override {
    return causal_.forward(batch, training, states);
  }

  bool measures_perplexity() const override {
    return cost_.smoothing == 0 && !cost_.dft && causal_.router_weight() == 0;
  }

  std::unique_ptr<BatchLoss> loss(const MicroBatch&, std::span<const MicroBatch>,
                                  const Divisors& divisors) override {
    return std::make_unique<SftBatchLoss>(causal_, cost_, divisors);
  }

 private:
  const Causal causal_;
  const loss::TokenCost cost_;
};

}  // namespace

std::unique_ptr<Method> make_sft(const MethodContext& context) { return std::make_unique<Sft>(context); }

}  // namespace trl::train
