// Implements engine::Trainer over train/: reads the configuration, hands metrics and files across.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "config/training_arguments.h"
#include "engine/engine.h"
#include "entry/boundary.h"
#include "entry/model_object.h"
#include "entry/recording_events.h"
#include "train/trainer.h"

namespace trl::entry {

class TrainerObject final : public engine::Trainer {
 public:
  TrainerObject(engine::Host& host, const engine::TrainerSpec& spec);

  void release() noexcept override { delete this; }
  int32_t step(std::span<const engine::Metric>* metrics, engine::ErrorSink& error) noexcept override;
  int32_t evaluate(std::span<const engine::Metric>* metrics, engine::ErrorSink& error) noexcept override;
  int32_t finish(engine::ErrorSink& error) noexcept override;
  bool complete() noexcept override { return trainer_->complete(); }
  int32_t save(std::string_view directory, engine::SaveKind kind, engine::ErrorSink& error) noexcept override;
  int64_t global_step() noexcept override { return trainer_->state().global_step; }
  int64_t max_steps() noexcept override { return trainer_->max_steps(); }
  std::string_view state_json() noexcept override;

 private:
  ~TrainerObject() = default;
  void say_kernels(const engine::TrainerSpec& spec, const config::TrainingArguments& arguments);
  std::span<const engine::Metric> view(const telemetry::Record& record);

  engine::Host& host_;
  HostLog log_;
  ModelObject& model_;
  std::vector<std::pair<std::string, std::string>> files_;
  std::string vocabulary_;  // encoded, for save_format gguf
  std::unique_ptr<RecordingEvents> events_;
  std::unique_ptr<train::Trainer> trainer_;
  telemetry::Record record_;  // the record behind metrics_
  std::vector<engine::Metric> metrics_;
  std::string state_json_;
};

}  // namespace trl::entry
