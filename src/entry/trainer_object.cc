#include "entry/trainer_object.h"

#include "base/error.h"
#include "model/model.h"

namespace trl::entry {

namespace {

// Publishes the state at the end of a call, however that ends.
struct PublishesAtEnd {
  ~PublishesAtEnd() { events.publish(); }
  RecordingEvents& events;
};

}  // namespace

template <class Body>
int32_t TrainerObject::hold_step(std::span<const engine::Metric>* metrics, engine::ErrorSink& error,
                                 void (train::Trainer::*check)() const, const Body& body) noexcept {
  *metrics = {};
  const PublishesAtEnd publishes{*events_};
  return compute(host_, error, [&] {
    (*trainer_.*check)();
    try {
      if (!body()) return Status::end;
    } catch (const Error& why) {
      if (!trainer_->begun()) events_->interrupted(why.message());
      throw;
    }
    *metrics = metrics_.hold(trainer_->begun() ? trainer_->begun_metrics() : trainer_->metrics());
    return Status::ok;
  });
}

int32_t TrainerObject::step(std::span<const engine::Metric>* metrics, engine::ErrorSink& error) noexcept {
  return hold_step(metrics, error, &train::Trainer::need_whole_step, [&] { return trainer_->step(); });
}

int32_t TrainerObject::backward(std::span<const engine::Metric>* metrics, engine::ErrorSink& error) noexcept {
  return hold_step(metrics, error, &train::Trainer::need_halves, [&] { return trainer_->backward(); });
}

int32_t TrainerObject::update(bool apply, std::span<const engine::Metric>* metrics,
                              engine::ErrorSink& error) noexcept {
  return hold_step(metrics, error, &train::Trainer::need_begun, [&] {
    trainer_->update(apply);
    return true;
  });
}

int32_t TrainerObject::evaluate(engine::BatchSource* rows, std::span<const engine::Metric>* metrics,
                                engine::ErrorSink& error) noexcept {
  *metrics = {};
  const PublishesAtEnd publishes{*events_};
  return compute(host_, error, [&] {
    *metrics = metrics_.hold(rows != nullptr ? trainer_->evaluate(*rows) : trainer_->evaluate());
  });
}

int32_t TrainerObject::finish(engine::ErrorSink& error) noexcept {
  const PublishesAtEnd publishes{*events_};
  return compute(host_, path_, error, [&] {
    trainer_->finish();
    const telemetry::TrainerState& state = trainer_->state();
    events_->publish_adapter(loads_best_ ? state.best_global_step : state.global_step);
  });
}

int32_t TrainerObject::save(std::string_view directory, engine::SaveKind kind,
                            engine::ErrorSink& error) noexcept {
  const PublishesAtEnd publishes{*events_};
  return compute(host_, path_, error, [&] {
    const std::string target(directory);
    if (kind == engine::SaveKind::checkpoint) {
      trainer_->save_checkpoint(target);
    } else if (kind == engine::SaveKind::merged) {
      trainer_->save_merged(target);
    } else {
      if (kind == engine::SaveKind::adapter && model_.get().adapters().trained() == nullptr)
        fail_key("save.kind", "save.kind: adapter needs use_peft, and this run trains the model itself");
      trainer_->save_model(target);
    }
  });
}

int32_t TrainerObject::describe(engine::TextSink& state, engine::ErrorSink& error) noexcept {
  return guard(host_, error, [&] { state.set(events_->published().describe()); });
}

}  // namespace trl::entry
