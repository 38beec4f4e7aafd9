// engine::Trainer over train/: reads the configuration, hands metrics and files across.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/training_arguments.h"
#include "engine/beside.h"
#include "entry/beside_object.h"
#include "entry/boundary.h"
#include "entry/held_metrics.h"
#include "entry/model_object.h"
#include "entry/recording_events.h"
#include "train/trainer/trainer.h"

namespace trl::entry {

class TrainerObject final : public engine::ServingTrainer {
 public:
  TrainerObject(engine::Host& host, const engine::TrainerSpec& spec);

  void release() noexcept override { delete this; }
  int32_t step(std::span<const engine::Metric>* metrics, engine::ErrorSink& error) noexcept override;
  int32_t backward(std::span<const engine::Metric>* metrics, engine::ErrorSink& error) noexcept override;
  int32_t update(bool apply, std::span<const engine::Metric>* metrics,
                 engine::ErrorSink& error) noexcept override;
  void set_learning_rate(double rate) noexcept override { trainer_->set_learning_rate(rate); }
  int32_t evaluate(engine::BatchSource* rows, std::span<const engine::Metric>* metrics,
                   engine::ErrorSink& error) noexcept override;
  void interrupted(std::string_view why) noexcept override { events_->interrupted(why); }
  int32_t finish(engine::ErrorSink& error) noexcept override;
  bool complete() noexcept override { return trainer_->complete(); }
  int32_t save(std::string_view directory, engine::SaveKind kind, engine::ErrorSink& error) noexcept override;
  int64_t global_step() noexcept override { return events_->published().global_step(); }
  int64_t max_steps() noexcept override { return trainer_->max_steps(); }
  const engine::TrainedModel& trained_model() noexcept override { return trained_model_; }
  int32_t describe(engine::TextSink& state, engine::ErrorSink& error) noexcept override;
  engine::Beside* beside() noexcept override { return beside_.get(); }

 private:
  ~TrainerObject() = default;
  // Runs body, which does a step or half of one and returns whether there was one, and holds its metrics. An
  // error of check is that of a call, and not of the run, whose reports say nothing of it.
  template <class Body>
  int32_t hold_step(std::span<const engine::Metric>* metrics, engine::ErrorSink& error,
                    void (train::Trainer::*check)() const, const Body& body) noexcept;
  void say_kernels(const engine::TrainerSpec& spec, const config::TrainingArguments& arguments);

  engine::Host& host_;
  HostLog log_;
  const kernels::Path path_;
  ModelObject& model_;
  std::vector<std::pair<std::string, std::string>> files_;
  std::string vocabulary_;  // encoded, for save_format gguf
  std::unique_ptr<RecordingEvents> events_;
  std::unique_ptr<train::Trainer> trainer_;
  std::unique_ptr<BesideObject> beside_;  // or null
  bool loads_best_ = false;               // at the end of the run
  HeldMetrics metrics_;
  engine::TrainedModel trained_model_;
};

}  // namespace trl::entry
