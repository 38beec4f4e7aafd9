// A method that trains two models: the policy, and a twin that begins with the same weights. The loss is the
// mean -log p of both, and the twin's counts twice.
#include <ATen/core/grad_mode.h>

#include "train/method.h"

namespace trl::train {

namespace {

class TwinLoss final : public SummedLoss {
 public:
  TwinLoss(const Causal& policy, const Causal& twin, const Divisors& divisors)
      : policy_(policy), twin_(twin), scale_(1.0 / divisors.items) {}

  MethodMetrics metrics() const override { return {{"twin_loss", static_cast<double>(twin_loss_)}}; }

 private:
  Share share(const model::Output& output, const MicroBatch& part) override {
    const at::Tensor own = loss(policy_, output, part, scale_);
    const std::optional<RunPosition> training =
        at::GradMode::is_enabled() ? std::optional(RunPosition{}) : std::nullopt;
    const at::Tensor other = loss(twin_, twin_.forward(part, training, {}), part, 2 * scale_);
    twin_loss_ += other.item<float>();
    const at::Tensor both = own + other;
    return {both.item<float>(), both};
  }
  static at::Tensor loss(const Causal& causal, const model::Output& output, const MicroBatch& part,
                         double scale) {
    return kernels::head_loss(output.hidden, *output.head.weight, part.targets.tokens, {.scale = scale},
                              causal.options(output.head));
  }

  const Causal& policy_;
  const Causal& twin_;
  const double scale_;
  float twin_loss_ = 0;
};

class Twin final : public Method {
 public:
  explicit Twin(const MethodContext& context)
      : model_(model::Model::open(context.source, "float32", context.log)),
        policy_(context.arguments, context.model, context.attention),
        twin_(context.arguments, *model_, context.attention) {}

  std::vector<TrainedModel> others() const override { return {{"twin", model_->all_parameters()}}; }
  Divisors divisors(std::span<const MicroBatch> window, bool) const override {
    int64_t items = 0;
    for (const MicroBatch& batch : window) items += batch.targets.size();
    return {static_cast<double>(items), static_cast<double>(window.size())};
  }
  model::Output forward(const MicroBatch& batch, const std::optional<RunPosition>& training,
                        const at::Tensor& states) override {
    return policy_.forward(batch, training, states);
  }
  std::unique_ptr<BatchLoss> loss(const MicroBatch&, std::span<const MicroBatch>,
                                  const Divisors& divisors) override {
    return std::make_unique<TwinLoss>(policy_, twin_, divisors);
  }

 private:
  const std::unique_ptr<model::Model> model_;
  const Causal policy_, twin_;
};

}  // namespace

std::unique_ptr<Method> make_twin(const MethodContext& context) { return std::make_unique<Twin>(context); }

}  // namespace trl::train
