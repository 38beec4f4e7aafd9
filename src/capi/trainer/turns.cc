// When a call of a trainer or of its model may begin, and what ends or holds it: trl_trainer_cancel,
// trl_trainer_pause, trl_trainer_resume, trl_trainer_destroy.
#include "base/error.h"
#include "base/interrupt.h"
#include "capi/guard.h"
#include "capi/trainer/trainer_handle.h"

namespace trl::capi {
namespace {

// Returns the interrupt of a trainer; null: the handle is not a trainer of this process.
Interrupt* interrupt_of(trl_trainer* trainer) noexcept {
  if (trainer == nullptr || !trainer->is(Tag::trainer) || trainer->inherited()) return nullptr;
  return &trainer->object->interrupt();
}

int ask(trl_trainer* trainer, void (Interrupt::*request)() noexcept) noexcept {
  if (Interrupt* const asked = interrupt_of(trainer)) (asked->*request)();
  return 0;
}

// Ends a held call, which could never be resumed now.
trl_trainer* unheld(trl_trainer* trainer) noexcept {
  if (interrupt_of(trainer) != nullptr) trainer->object->end_pause();
  return trainer;
}

}  // namespace

Trainer::Began::Began(Trainer& trainer, base::Turn* turn, bool pausable)
    : trainer_(trainer), counted_(pausable ? &trainer.held_ : nullptr) {
  trainer_.drop_late_cancel();
  trainer_.interrupt_.begin(pausable);
  trainer_.turn_ = turn;
}

Trainer::Began::~Began() {
  trainer_.turn_ = nullptr;
  trainer_.complete_ = trainer_.trainer_->complete();
}

void Trainer::refuse_cancelled() {
  interrupt_.answered();
  fail(Status::cancelled, "cancelled before its turn");
}

bool Trainer::may_wait(bool pausable) const {
  if (!pausable && interrupt_.paused() && held_ > 0)
    fail(Status::busy, "the trainer is paused, and a call that it holds is at work");
  base::poll();
  return true;
}

// The step that waits for this thread's answer would wait for ever.
bool Trainer::guest_may_wait(bool pausable) const {
  if (Rollout::is_answered_here(this))
    fail(Status::busy,
         "the step of this trainer waits for the answer to a rollout that this thread has read, so that its "
         "model has no turn for it: call trl_rollout_finish first, or use another model");
  return may_wait(pausable);
}

// A cancel that no call takes would end the next one of a model of this trainer.
void Trainer::end_pause() noexcept {
  if (!interrupt_.paused()) return;
  if (held_ > 0) interrupt_.cancel();
  interrupt_.resume();
}

void Trainer::drop_late_cancel() noexcept {
  if (complete_) interrupt_.answered();
}

void Trainer::give_way() {
  try {
    turn_->give_way([this] { return may_wait(true); });
  } catch (const Error& error) {
    if (error.status() != Status::cancelled) throw;
    const Error told = error.with(
        fmt::format("cancelled after step {} of {}", trainer_->global_step(), trainer_->max_steps()));
    trainer_->interrupted(told.message());
    throw told;
  }
}

}  // namespace trl::capi

using namespace trl::capi;

void trl_trainer_cancel(trl_trainer* trainer) noexcept {
  answer(0, [&] { return ask(trainer, &Interrupt::cancel); });
}

void trl_trainer_pause(trl_trainer* trainer) noexcept {
  answer(0, [&] { return ask(trainer, &Interrupt::pause); });
}

void trl_trainer_resume(trl_trainer* trainer) noexcept {
  answer(0, [&] { return ask(trainer, &Interrupt::resume); });
}

void trl_trainer_destroy(trl_trainer* trainer) noexcept { destroy(unheld(trainer)); }
