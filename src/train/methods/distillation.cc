// Distillation (TRL's DistillationTrainer): the model writes completions, and learns the teacher's
// distribution at each of their tokens.
#include "train/scoring/teacher.h"

namespace trl::train {

namespace {

class Distillation final : public Taught {
 public:
  explicit Distillation(const MethodContext& context) : Taught(context, /*tells_entropy=*/true) {}

  void before_rewards(Rollout& rollout) override { add_length_metrics(rollout); }
  // All micro-batches of a generation are divided by its tokens; each is a window's, or an evaluation's.
  Divisors divisors(std::span<const MicroBatch> window, bool training) const override {
    return {static_cast<double>(window.front().items), static_cast<double>(window.size()), training};
  }
};

}  // namespace

std::unique_ptr<Method> make_distillation(const MethodContext& context) {
  return std::make_unique<Distillation>(context);
}

}  // namespace trl::train
