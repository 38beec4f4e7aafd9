// Supervised fine-tuning: the next-token loss over labels (TRL's SFTTrainer.compute_loss).
#include <cmath>

#include "base/counter.h"
#include "base/error.h"
#include "loss/sft.h"
#include "train/method.h"

namespace trl::train {

namespace {

constexpr uint64_t kDropout = 1;  // a part of its keys, so that they are not those of the noise

class Sft final : public Method {
 public:
  Sft(const config::TrainingArguments& arguments, model::Model& model, kernels::AttentionPluginPtr attention)
      : model_(model),
        attention_(std::move(attention)),
        compute_(model.compute(arguments.bf16 ? at::kBFloat16 : at::kFloat)),
        checkpoint_(arguments.gradient_checkpointing),
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
    options.checkpoint = checkpoint_ && training;
    options.attention = attention_;
    options.router_loss = router_loss_;
    if (training) {
      options.noise = neftune(batch, *training);
      options.random = base::counter_seed({seed_, static_cast<uint64_t>(training->step),
                                           static_cast<uint64_t>(training->micro_batch), kDropout});
    }
    return model_.forward({batch.input_ids, batch.position_ids, batch.segments, states}, options);
  }

  MethodLoss loss(const model::Output& output, const MicroBatch& batch, const Divisors& divisors) override {
    const loss::SftLoss sft =
        loss::sft_loss(output.hidden, model_.head(), batch.targets, divisors.items, head_);
    const double count = static_cast<double>(std::max<int64_t>(sft.sums.count, 1));
    MethodLoss result{sft.loss,
                      {{"entropy", sft.sums.entropy / count},
                       {"mean_token_accuracy", static_cast<double>(sft.sums.correct) / count}}};
    if (!output.router_loss.defined()) return result;
    result.metrics.emplace_back("aux_loss", output.router_loss.item<double>());
    // TRL's smoothed loss leaves it out.
    if (head_.smoothing == 0)
      result.loss = sft.loss + output.router_loss * (router_weight_ / divisors.batches);
    return result;
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
  const bool checkpoint_;
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
