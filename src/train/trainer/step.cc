// A step as the host asks for it, whole or in halves: when it may be asked for, and where the run is after an
// error.
#include <string>

#include "base/error.h"
#include "train/trainer/trainer.h"

namespace trl::train {

template <class Body>
auto Trainer::explained(const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    if (stepper_.torn()) throw error.with(torn(error.message()));
    if (error.status() == Status::callback && setup_.rollouts) throw error.with(can_go_on(error.message()));
    if (error.status() != Status::cancelled) throw;
    if (begun())
      fail(Status::cancelled, "cancelled before the update of step {} of {}, which is still to be made",
           state_.global_step + 1, steps_.max_steps);
    fail(Status::cancelled, "cancelled after step {} of {}", state_.global_step, steps_.max_steps);
  }
}

bool Trainer::step() {
  return begin_step([this] { end_step(true); });
}

bool Trainer::backward() {
  need_halves();
  return begin_step([this] {
    begun_->metrics = records_.begun(batches_.window(), stepper_.learned(), begun_->learning_rate);
  });
}

void Trainer::update(bool apply) {
  need_begun();
  explained([&] { end_step(apply); });
}

template <class Rest>
bool Trainer::begin_step(const Rest& rest) {
  check_usable();
  need_whole_step();
  if (phase_ == Phase::closed && !complete()) reopen();
  if (phase_ >= Phase::finished) return false;
  return explained([&] {
    const kernels::PathScope scope(stepper_.path());
    begin();
    do {
      follow_up();
      if (stops()) return false;
    } while (!first_half());
    try {
      rest();
    } catch (...) {
      leave_begun();
      throw;
    }
    return true;
  });
}

void Trainer::end_step(bool apply) {
  const kernels::PathScope scope(stepper_.path());
  second_half(apply);
  follow_up();
}

void Trainer::need_whole_step() const {
  if (begun())
    fail(Status::invalid_argument,
         "step {} has begun, and its second half comes first: call trl_trainer_update",
         state_.global_step + 1);
}

void Trainer::need_begun() const {
  if (!begun()) fail(Status::invalid_argument, "no step has begun: trl_trainer_backward begins one");
}

void Trainer::need_halves() const {
  if (arguments().optimizer_in_backward)
    throw Error(Status::unsupported,
                "optimizer_in_backward: true changes the weights during backward, so a step has no halves: "
                "call trl_trainer_step, or leave the option out",
                "optimizer_in_backward");
  if (arguments().method->episodes)
    throw Error(Status::unsupported,
                fmt::format("method {} makes several updates in a step, which has no halves: call "
                            "trl_trainer_step",
                            arguments().method->name),
                "method");
}

void Trainer::leave_begun() {
  if (!begun()) return;
  begun_.reset();
  stepper_.leave();
}

std::string Trainer::torn(const std::string& why) const {
  return fmt::format(
      "optimizer_in_backward: step {} ended in the middle of its updates, so some weights are those after it "
      "and the others those before it, and this trainer cannot continue ({}); {}",
      state_.global_step + 1, why,
      saving_.last_checkpoint().empty()
          ? "no checkpoint was saved: start the run again"
          : fmt::format("resume from the last checkpoint: resume_from_checkpoint: {}",
                        saving_.last_checkpoint()));
}

std::string Trainer::can_go_on(const std::string& why) const {
  const std::string& last = saving_.last_checkpoint();
  const std::string of_it = last.ends_with(fmt::format("/checkpoint-{}", state_.global_step))
                                ? fmt::format("; it is saved in {}", last)
                                : fmt::format(", once that is saved; by itself it had saved {}",
                                              last.empty() ? "no checkpoint" : last);
  return fmt::format("{}; the run can resume from step {} of {}{}", why, state_.global_step, steps_.max_steps,
                     of_it);
}

void Trainer::check_usable() const {
  if (stepper_.torn()) fail(Status::invalid_argument, "{}", torn("an earlier call gave the reason"));
}

void Trainer::make_whole() {
  check_usable();
  if (stepper_.updates_done() == 0) return;
  const kernels::PathScope scope(stepper_.path());
  whole_step();
}

// Makes the next update, without the work before and after it.
void Trainer::whole_step() {
  if (!first_half()) return;
  try {
    second_half(true);
  } catch (...) {
    leave_begun();
    throw;
  }
}

}  // namespace trl::train
