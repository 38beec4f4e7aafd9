// A method as a new trainer would bring it: the loss is the mean over texts of the square of a text's mean
// -log p.
#include "train/batch_loss.h"
#include "train/method.h"

namespace trl::train {

namespace {

struct Text {
  double sum = 0;  // of -log p
  int64_t targets = 0;
  double mean() const { return targets > 0 ? sum / static_cast<double>(targets) : 0; }
};

class SquaredBatchLoss final : public SequenceLoss {
 public:
  SquaredBatchLoss(const Causal& causal, const MicroBatch& batch, const Divisors& divisors)
      : SequenceLoss(causal, divisors), texts_(static_cast<size_t>(batch.sequence_count())) {}

  MethodMetrics metrics() const override {
    double sum = 0;
    for (const Text& text : texts_) sum += text.mean();
    return {{"mean_surprise", sum / count()}};
  }

 private:
  void add(size_t, int32_t sequence, const kernels::TokenValues& values) override {
    Text& text = texts_[static_cast<size_t>(sequence)];
    text.sum -= values.log_prob;
    ++text.targets;
  }
  double value() override {
    double sum = 0;
    for (const Text& text : texts_) sum += text.mean() * text.mean();
    return sum / count();
  }
  double slope(size_t, int32_t sequence) const override {
    const Text& text = texts_[static_cast<size_t>(sequence)];
    return -2 * text.mean() / (static_cast<double>(text.targets) * count());
  }
  double count() const { return static_cast<double>(texts_.size()); }

  std::vector<Text> texts_;
};

class Squared final : public Method {
 public:
  explicit Squared(const MethodContext& context)
      : causal_(context.arguments, context.model, context.attention) {}

  Divisors divisors(std::span<const MicroBatch> window, bool) const override {
    return {1, static_cast<double>(window.size())};
  }
  model::Output forward(const MicroBatch& batch, const std::optional<RunPosition>& training,
                        const at::Tensor& states) override {
    return causal_.forward(batch, training, states);
  }
  std::unique_ptr<BatchLoss> loss(const MicroBatch& batch, std::span<const MicroBatch>,
                                  const Divisors& divisors) override {
    return std::make_unique<SquaredBatchLoss>(causal_, batch, divisors);
  }

 private:
  const Causal causal_;
};

}  // namespace

std::unique_ptr<Method> make_squared(const MethodContext& context) {
  return std::make_unique<Squared>(context);
}

}  // namespace trl::train
