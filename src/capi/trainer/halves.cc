// trl_trainer_backward, trl_trainer_update: the halves of a step; and the learning rate of the next ones.
#include <cmath>

#include "capi/guard.h"
#include "capi/trainer/trainer_handle.h"

namespace trl::capi {

bool Trainer::backward() {
  return exclusively(
      [&] {
        metrics_.entries.clear();
        if (trainer_->complete()) return false;
        run_->check_rollouts();
        if (samples_) samples_->take_due();
        return measure(Use::train,
                       [&](auto* numbers, auto& error) { return trainer_->backward(numbers, error); });
      },
      true);
}

void Trainer::update(bool apply) {
  exclusively(
      [&] {
        metrics_.entries.clear();
        measure(Use::train,
                [&](auto* numbers, auto& error) { return trainer_->update(apply, numbers, error); });
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
