// Supervised fine-tuning: the next-token loss over labels (TRL's SFTTrainer.compute_loss).
#include <cmath>

#include "base/counter.h"
#include "loss/sft.h"
#include "train/method.h"

namespace trl::train {

namespace {

class Sft final : public Method {
 public:
  Sft(const config::TrainingArguments& arguments, model::Model& model, kernels::AttentionPluginPtr attention)
      : model_(model),
        attention_(std::move(attention)),
        compute_(model.compute(arguments.bf16 ? at::kBFloat16 : at::kFloat)),
        checkpoint_(arguments.gradient_checkpointing),
        neftune_alpha_(arguments.neftune_noise_alpha),
        seed_(static_cast<uint64_t>(arguments.seed)) {
    head_.compute = compute_;
    head_.smoothing = arguments.label_smoothing_factor;
    head_.dft = arguments.dft;
  }

  double plan(std::span<const MicroBatch> window) const override {
    int64_t items = 0;
    for (const MicroBatch& batch : window) items += loss::count_targets(batch.targets);
    return static_cast<double>(items);
  }

  model::Output forward(const MicroBatch& batch, const std::optional<Place>& training) override {
    model::ForwardOptions options;
    options.compute = compute_;
    options.checkpoint = checkpoint_ && training;
    options.attention = attention_;
    if (training) options.noise = neftune(batch, *training);
    return model_.forward({batch.input_ids, batch.position_ids, batch.segments}, options);
  }

  MethodLoss loss(const model::Output& output, const MicroBatch& batch, double items) override {
    const loss::SftLoss sft = loss::sft_loss(output.hidden, model_.head(), batch.targets, items, head_);
    const double count = static_cast<double>(std::max<int64_t>(sft.sums.count, 1));
    return {sft.loss,
            {{"entropy", sft.sums.entropy / count},
             {"mean_token_accuracy", static_cast<double>(sft.sums.correct) / count}}};
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
  kernels::HeadOptions head_;
};

}  // namespace

std::unique_ptr<Method> make_sft(const config::TrainingArguments& arguments, model::Model& model,
                                 kernels::AttentionPluginPtr attention) {
  return std::make_unique<Sft>(arguments, model, std::move(attention));
}

}  // namespace trl::train
