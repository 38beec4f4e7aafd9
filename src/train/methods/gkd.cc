// Generalised knowledge distillation (TRL's GKDTrainer): the model learns the teacher's distribution at each
// token of completions of the rows, of its own, or of the teacher's.
#include "train/scoring/teacher.h"

namespace trl::train {

namespace {

class Gkd final : public Taught {
 public:
  explicit Gkd(const MethodContext& context) : Taught(context, /*tells_entropy=*/false) {}

  // As in TRL, the divisor counts the tokens of the rows' own completions, also if others take their place.
  Divisors divisors(std::span<const MicroBatch> window, bool training) const override {
    int64_t items = 0;
    for (const MicroBatch& batch : window) items += batch.items;
    return {static_cast<double>(items), static_cast<double>(window.size()), training};
  }
};

}  // namespace

std::unique_ptr<Method> make_gkd(const MethodContext& context) { return std::make_unique<Gkd>(context); }

}  // namespace trl::train
