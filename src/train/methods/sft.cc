// Supervised fine-tuning: the next-token loss over labels (TRL's SFTTrainer.compute_loss).
#include "loss/sft.h"
#include "train/method.h"

namespace trl::train {

namespace {

class Sft final : public Method {
 public:
  Sft(const config::TrainingArguments& arguments, model::Model& model)
      : model_(model),
        compute_(model.compute(arguments.bf16 ? at::kBFloat16 : at::kFloat)),
        checkpoint_(arguments.gradient_checkpointing) {}

  double plan(std::span<const MicroBatch> window) const override {
    int64_t items = 0;
    for (const MicroBatch& batch : window) items += loss::count_targets(batch.targets);
    return static_cast<double>(items);
  }

  at::Tensor forward(const MicroBatch& batch, bool training) override {
    model::ForwardOptions options;
    options.compute = compute_;
    options.checkpoint = checkpoint_ && training;
    return model_.forward({batch.input_ids, batch.position_ids, batch.segments}, options);
  }

  MethodLoss loss(const at::Tensor& hidden, const MicroBatch& batch, double items) override {
    kernels::HeadOptions options;
    options.compute = compute_;
    const loss::SftLoss sft = loss::sft_nll(hidden, model_.head(), batch.targets, items, options);
    const double count = static_cast<double>(std::max<int64_t>(sft.sums.count, 1));
    return {sft.loss,
            {{"entropy", sft.sums.entropy / count},
             {"mean_token_accuracy", static_cast<double>(sft.sums.correct) / count}}};
  }

 private:
  model::Model& model_;
  const at::ScalarType compute_;
  const bool checkpoint_;
};

}  // namespace

std::unique_ptr<Method> make_sft(const config::TrainingArguments& arguments, model::Model& model) {
  return std::make_unique<Sft>(arguments, model);
}

}  // namespace trl::train
