// The update: clipping, the optimizer, and windows whose loss or gradient is not finite (on_nonfinite).
#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/error.h"
#include "base/interrupt.h"
#include "tensor/parts.h"
#include "train/batches/micro_batch.h"
#include "train/scoring/weights_digest.h"
#include "train/stepper/stepper.h"

namespace trl::train {

Learned Stepper::update(bool apply) {
  const auto start = std::chrono::steady_clock::now();
  if (!backward_step_) {
    const tensor::Timed timed(tensor::Part::optimizer);
    if (!learned_.skipped) learned_.norm = optim::l2_norm(optim::gradients(parameters_));
    base::poll();
    setup_.model->check_files();
    learned_.omitted = !apply;
    if (!learned_.skipped && apply) learned_.skipped = !accepts(learned_.norm, "gradient norm", window_);
    const base::InterruptScope whole(nullptr);  // not interrupted once begun
    if (!learned_.skipped && apply) optimizer_->step(place_.learning_rate, clip_scale(learned_.norm));
  }
  gradients_.drop();
  window_ = {};
  if (!learned_.skipped) learned_.metrics.push_back(method_->update_metrics());
  learned_.optimizer_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return std::move(learned_);
}

double Stepper::clip_scale(double norm) const {
  return previous_scale().value_or(optim::clip_scale(norm, arguments().max_grad_norm));
}

std::optional<double> Stepper::previous_scale() const {
  if (!arguments().clip_by_previous_norm || !place_.previous_norm) return std::nullopt;
  return optim::clip_scale(*place_.previous_norm, arguments().max_grad_norm);
}

// on_nonfinite: says whether the step learns from a window with this value. Throws if that is an error.
bool Stepper::accepts(double value, std::string_view what, std::span<const MicroBatch> batches) const {
  using config::OnNonfinite;
  if (std::isfinite(value) || arguments().on_nonfinite == OnNonfinite::proceed) return true;
  const std::string line =
      fmt::format("the {} of step {} is {} (dataset rows {}); the weights are as before {}; {}", what,
                  place_.step + 1, std::isnan(value) ? std::nan("") : value, row_list(batches),
                  updates_.empty() ? "the step" : "this update of the step", advice());
  if (arguments().on_nonfinite == OnNonfinite::error)
    throw Error(Status::invalid_argument, line, "on_nonfinite");
  if (setup_.log != nullptr) setup_.log->warning("train", "on_nonfinite skip: {}", line);
  return false;
}

// Names a weight that is not finite, if any, and says how the run can be mended.
std::string Stepper::advice() const {
  const std::string weight = faulty_weight(*setup_.model);
  if (!weight.empty() && place_.step == 0) return weight + std::string(kGiveFinite);
  if (const std::string other = weight.empty() ? method_->faulty_reference() : ""; !other.empty())
    return other + std::string(kGiveFinite);
  return fmt::format("{}{}try a lower learning_rate than {:g}", weight, weight.empty() ? "" : "; ",
                     std::max(arguments().learning_rate, place_.learning_rate));
}

}  // namespace trl::train
