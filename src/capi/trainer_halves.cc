// trl_trainer_backward, trl_trainer_update: the halves of a step; and the learning rate of the next ones.
#include <cmath>

#include "capi/guard.h"
#include "capi/trainer_handle.h"
#include "engine/error_capture.h"

namespace trl::capi {

bool Trainer::backward() {
  return exclusively(
      [&] {
        metrics_.entries.clear();
        if (trainer_->complete()) return false;
        run_->check_rollouts();
        if (samples_) samples_->take_due();
        std::span<const engine::Metric> numbers;
        engine::ErrorCapture error;
        const bool begun = error.check(
            process().use_engine(Use::train, [&] { return trainer_->backward(&numbers, error); }));
        metrics_.assign(numbers);
        return begun;
      },
      true);
}

void Trainer::update(bool apply) {
  exclusively(
      [&] {
        metrics_.entries.clear();
        std::span<const engine::Metric> numbers;
        engine::ErrorCapture error;
        error.check(
            process().use_engine(Use::train, [&] { return trainer_->update(apply, &numbers, error); }));
        metrics_.assign(numbers);
        if (samples_) samples_->take_due();
      },
      true);
}

void Trainer::set_learning_rate(double rate) {
  if (std::isinf(rate) || rate < 0)
    fail(Status::invalid_argument,
         "learning_rate is {}: give a number that is not below 0, or NaN for that of the schedule", rate);
  trainer_->set_learning_rate(rate);
}

}  // namespace trl::capi

using namespace trl::capi;

trl_status trl_trainer_backward(trl_trainer* trainer, const trl_metrics** out_metrics,
                                trl_error** error) noexcept {
  return guard(error, out_metrics, [&] {
    const auto shared = get(trainer, "trainer");
    const bool begun = shared->backward();
    if (out_metrics != nullptr) *out_metrics = &shared->metrics();
    return begun ? trl::Status::ok : trl::Status::end;
  });
}

trl_status trl_trainer_update(trl_trainer* trainer, int32_t apply, const trl_metrics** out_metrics,
                              trl_error** error) noexcept {
  return guard(error, out_metrics, [&] {
    const auto shared = get(trainer, "trainer");
    if (apply != 0 && apply != 1)
      trl::fail(trl::Status::invalid_argument,
                "apply is {}: give 1 to update the weights, or 0 to leave them", apply);
    shared->update(apply == 1);
    if (out_metrics != nullptr) *out_metrics = &shared->metrics();
  });
}

trl_status trl_trainer_set_learning_rate(trl_trainer* trainer, double learning_rate,
                                         trl_error** error) noexcept {
  return guard<From::anywhere>(error, [&] { get(trainer, "trainer")->set_learning_rate(learning_rate); });
}
