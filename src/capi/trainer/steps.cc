// trl_trainer_step, trl_trainer_train, trl_trainer_evaluate.
#include <string>
#include <utility>

#include "base/error.h"
#include "capi/guard.h"
#include "capi/trainer/trainer_handle.h"

namespace trl::capi {

bool Trainer::step_locked() {
  try {
    return take_step();
  } catch (const Error& error) {
    if (error.status() != Status::io || error.key() != run::kServerKey) throw;
    throw saved_without_server(error);
  }
}

Error Trainer::saved_without_server(const Error& why) {
  const int64_t step = trainer_->global_step();
  if (step == 0) return why;  // nothing was learned
  try {
    engine::ErrorCapture error;
    error.check(process().use_engine(
        Use::save, [&] { return trainer_->save("", engine::SaveKind::checkpoint, error); }));
  } catch (const Error& error) {
    return why.with(fmt::format("{}; the run cannot be saved: {}", why.message(), error.message()));
  }
  return why.with(fmt::format("{}; the run is saved in {}/checkpoint-{}: start a server and resume from it",
                              why.message(), options().get("output_dir"), step));
}

bool Trainer::take_step() {
  metrics_.entries.clear();
  if (trainer_->complete()) return false;
  run_->check_rollouts();
  if (samples_) samples_->take_due();
  const bool stepped =
      measure(Use::train, [&](auto* numbers, auto& error) { return trainer_->step(numbers, error); });
  if (samples_) samples_->take_due();
  if (!stepped) {
    if (samples_) samples_->take_last();
    run_->predict_what_ran();
    engine::ErrorCapture error;
    error.check(trainer_->finish(error));
    interrupt_.answered();
    run_->tell();
  }
  return stepped;
}

bool Trainer::step() {
  return exclusively([&] { return step_locked(); }, true);
}

Status Trainer::train(trl_event_fn on_event, void* user_data) {
  return exclusively(
      [&] {
        if (trainer_->complete()) return Status::end;
        struct Registered {
          explicit Registered(Events& sink) : events(sink) { events.failure = nullptr; }
          ~Registered() { events.function = nullptr; }
          void check() const {
            if (events.failure != nullptr) std::rethrow_exception(std::exchange(events.failure, nullptr));
          }
          Events& events;
        };
        const Registered registered(events_);
        events_.user_data = user_data;
        events_.function = on_event;
        try {
          while (step_locked()) give_way();
        } catch (...) {
          registered.check();  // the callback's failure takes precedence
          throw;
        }
        registered.check();
        return Status::ok;
      },
      true);
}

void Trainer::evaluate(const Dataset* rows) {
  exclusively(
      [&] {
        metrics_.entries.clear();
        run::Prepared others;
        if (rows != nullptr)
          others = run_->prepare_evaluation(*rows, *model_);
        else if (!run_->evaluates())
          fail(Status::invalid_argument, "the trainer was created without evaluation rows");
        run_->check_rollouts();
        measure(Use::evaluate, [&](auto* numbers, auto& error) {
          return trainer_->evaluate(others.eval.get(), numbers, error);
        });
      },
      true);
}

}  // namespace trl::capi

using namespace trl::capi;

trl_status trl_trainer_step(trl_trainer* trainer, const trl_metrics** out_metrics,
                            trl_error** error) noexcept {
  return guard(error, out_metrics, [&] {
    const auto shared = get(trainer, "trainer");
    const bool stepped = shared->step();
    if (out_metrics != nullptr) *out_metrics = &shared->metrics();
    return stepped ? trl::Status::ok : trl::Status::end;
  });
}

trl_status trl_trainer_train(trl_trainer* trainer, trl_event_fn on_event, void* user_data,
                             trl_error** error) noexcept {
  return guard(error, [&] { return get(trainer, "trainer")->train(on_event, user_data); });
}

trl_status trl_trainer_evaluate(trl_trainer* trainer, const trl_dataset* rows,
                                const trl_metrics** out_metrics, trl_error** error) noexcept {
  return guard(error, out_metrics, [&] {
    const auto shared = get(trainer, "trainer");
    const auto others = get_or_null(rows, "rows");
    shared->evaluate(others.get());
    if (out_metrics != nullptr) *out_metrics = &shared->metrics();
  });
}
