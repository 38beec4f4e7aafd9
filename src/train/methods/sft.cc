// Supervised fine-tuning: the next-token loss over labels (TRL's SFTTrainer.compute_loss).
#include <cmath>

#include "base/counter.h"
#include "base/error.h"
#include "loss/sft.h"
#include "tensor/rehearsal.h"
#include "train/method.h"

namespace trl::train {

namespace {

constexpr uint64_t kDropout = 1;  // a part of its keys, so that they are not those of the noise

// A sum over tokens; the routers' loss, where there is one, is of the whole micro-batch.
class SftBatchLoss final : public BatchLoss {
 public:
  SftBatchLoss(model::Model& model, const kernels::HeadOptions& options, double items, double router_weight)
      : model_(model), options_(options), items_(items), router_weight_(router_weight) {}

  at::Tensor share(const model::Output& output, const MicroBatch& part) override {
    const tensor::Stage stage("loss");
    // The head that a forward computes for may be the adapter's, which stands there after it.
    const loss::SftLoss sft = loss::sft_loss(output.hidden, model_.head(), part.targets, items_, options_);
    entropy_ += sft.sums.entropy;
    correct_ += sft.sums.correct;
    count_ += sft.sums.count;
    if (!output.router_loss.defined()) return sft.loss;
    router_loss_ = output.router_loss.item<double>();
    // TRL's smoothed loss leaves it out.
    return options_.smoothing == 0 ? sft.loss + output.router_loss * router_weight_ : sft.loss;
  }

  MethodMetrics metrics() const override {
    const auto count = static_cast<double>(std::max<int64_t>(count_, 1));
    MethodMetrics metrics = {{"entropy", entropy_ / count},
                             {"mean_token_accuracy", static_cast<double>(correct_) / count}};
    if (router_loss_) metrics.emplace_back("aux_loss", *router_loss_);
    return metrics;
  }

 private:
  model::Model& model_;
  const kernels::HeadOptions& options_;
  const double items_, router_weight_;
  double entropy_ = 0;
  int64_t correct_ = 0, count_ = 0;
  std::optional<double> router_loss_;
};

class Sft final : public Method {
 public:
  Sft(const config::TrainingArguments& arguments, model::Model& model, kernels::AttentionPluginPtr attention)
      : model_(model),
        attention_(std::move(attention)),
        compute_(model.compute(arguments.bf16 ? at::kBFloat16 : at::kFloat)),
        recompute_(arguments.recompute),
        small_tiles_(arguments.levers.small_tiles),
        neftune_alpha_(arguments.neftune_noise_alpha),
        seed_(static_cast<uint64_t>(arguments.seed)) {
    head_ = model.head_options(compute_);
    head_.smoothing = arguments.label_smoothing_factor;
    head_.dft = arguments.dft;
    const model::ExpertsConfig& experts = model.config().experts;
    router_weight_ = arguments.router_aux_loss_coef.value_or(experts.balance);
    router_loss_ = experts.count > 0 && router_weight_ != 0;
    if (experts.count == 0 && router_weight_ != 0) {
      fail_key("router_aux_loss_coef",
               "router_aux_loss_coef: {} weights the routers' loss of a mixture of experts, and this model "
               "({}) is "
               "none; leave it out",
               router_weight_, model.config().model_type);
    }
    if (router_loss_ && arguments.max_tokens_per_pass) {
      fail_key(
          "max_tokens_per_pass",
          "max_tokens_per_pass: {} is refused, because the routers' loss of this model ({}) is of a whole "
          "micro-batch, which then cannot go through it in parts: leave it out, or give "
          "router_aux_loss_coef: 0 (no such loss)",
          *arguments.max_tokens_per_pass, model.config().model_type);
    }
  }

  Divisors plan(std::span<const MicroBatch> window, bool training) const override {
    const bool all = training && model_.config().family->counts_first_labels;
    int64_t items = 0;
    for (const MicroBatch& batch : window) items += all ? batch.labels : loss::count_targets(batch.targets);
    return {static_cast<double>(items), static_cast<double>(window.size())};
  }

  model::Output forward(const MicroBatch& batch, const std::optional<Place>& training,
                        const at::Tensor& states) override {
    model::ForwardOptions options;
    options.compute = compute_;
    if (training) options.recompute = recompute_;
    if (training && small_tiles_) options.tiles.mlp_tokens = 1;  // rounded up to the smallest
    options.attention = attention_;
    options.router_loss = router_loss_;
    if (training) {
      options.noise = neftune(batch, *training);
      options.random = base::counter_seed({seed_, static_cast<uint64_t>(training->step),
                                           static_cast<uint64_t>(training->micro_batch), kDropout});
    }
    return model_.forward(
        {batch.input_ids, batch.position_ids, batch.segments, states, batch.first, batch.reach}, options);
  }

  std::unique_ptr<BatchLoss> loss(const MicroBatch&, const Divisors& divisors) override {
    return std::make_unique<SftBatchLoss>(model_, head_, divisors.items, router_weight_ / divisors.batches);
  }

 private:
  // Jain et al. 2023; as in transformers the length is that of the padded batch.
  kernels::Noise neftune(const MicroBatch& batch, const Place& at) const {
    if (neftune_alpha_ == 0) return {};
    const auto values = static_cast<double>(batch.width * model_.config().hidden_size);
    return {neftune_alpha_ / std::sqrt(values), base::counter_seed({seed_, static_cast<uint64_t>(at.step),
                                                                    static_cast<uint64_t>(at.micro_batch)})};
  }

  model::Model& model_;
  const kernels::AttentionPluginPtr attention_;
  const at::ScalarType compute_;
  const config::Recompute recompute_;
  const bool small_tiles_;
  const double neftune_alpha_;
  const uint64_t seed_;
  double router_weight_ = 0;
  bool router_loss_ = false;
  kernels::HeadOptions head_;
};

}  // namespace

std::unique_ptr<Method> make_sft(const config::TrainingArguments& arguments, model::Model& model,
                                 kernels::AttentionPluginPtr attention) {
  return std::make_unique<Sft>(arguments, model, std::move(attention));
}

}  // namespace trl::train
