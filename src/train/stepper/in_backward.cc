// Updates within backward (optimizer_in_backward).
#include <cmath>
#include <optional>

#include "base/error.h"
#include "train/stepper/stepper.h"

namespace trl::train {

// Updates during backward. The window has one micro-batch, in one part. If clipping needs a norm and no
// earlier step gives it, a backward without updates finds it.
bool Stepper::accumulate_and_update() {
  std::optional<BackwardStep::Updates> updates;
  double norm = std::nan("");
  const auto backward = [&](const at::Tensor& graph, Order) {
    norm = backward_step_->run(updates, [&] {
      if (graph.defined() && graph.requires_grad()) graph.backward();
    });
  };
  std::optional<double> scale = arguments().max_grad_norm > 0 ? previous_scale() : 1.0;
  if (!scale) {
    run(backward);
    accepts(norm, "gradient norm", window_);
    scale = optim::clip_scale(norm, arguments().max_grad_norm);
    learned_ = {};
    begin_collecting(window_);
  }
  updates = {place_.learning_rate, *scale, [&](const tensor::Parameter& p, bool finite) {
               setup_.model->check_files();
               if (finite || arguments().on_nonfinite == config::OnNonfinite::proceed) return;
               throw Error(Status::invalid_argument,
                           fmt::format("the gradient of {} in step {} is not finite (dataset rows {}); {}",
                                       p.name, place_.step + 1, row_list(window_), advice()),
                           "on_nonfinite");
             }};
  const bool goes_on = run(backward);
  learned_.norm = norm;
  return goes_on;
}

}  // namespace trl::train
