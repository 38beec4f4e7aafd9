// Implements engine::Attention, engine::Trainer and engine::Evaluator over kernels/ and train/: reads the
// configuration, hands metrics and files across.
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
#include "entry/model_object.h"
#include "kernels/kernels.h"
#include "telemetry/published_state.h"
#include "telemetry/recorder.h"
#include "train/evaluator.h"
#include "train/trainer.h"

namespace trl::entry {

// The plug-in of a run, opened before its rows and weights are read.
class AttentionObject final : public engine::Attention {
 public:
  explicit AttentionObject(const engine::AttentionSpec& spec);
  void release() noexcept override { delete this; }
  const kernels::AttentionPluginPtr& plugin() const { return plugin_; }
  const std::string& description() const { return description_; }  // for the log

 private:
  ~AttentionObject() = default;
  kernels::AttentionPluginPtr plugin_;
  std::string description_;
};

// The description of the built-in one, or of the plain path.
std::string built_in_attention(bool fused = true);

// Returns, for the log, why a run uses libtorch's operators instead of the fused kernels; empty: it uses the
// kernels.
std::string why_plain(bool fused, at::Device device);

// The event sink between the trainer and the host: publishes the state, writes the files that report_to asks
// for, then tells the host.
class RecordingEvents final : public engine::EventSink {
 public:
  // arguments: the values of config.
  RecordingEvents(engine::Host& host, const config::Config& config,
                  const config::TrainingArguments& arguments, const engine::TrainerSpec& spec);
  // Call before the first event; the trainer outlives the events.
  void watch(const train::Trainer& trainer) { trainer_ = &trainer; }
  void serve(BesideObject& beside) { beside_ = &beside; }  // has the adapter published after each step
  const telemetry::PublishedState& published() const { return published_; }
  void publish() noexcept { published_.publish(trainer_->state(), trainer_->metrics()); }
  int32_t on_event(const engine::Event& event) noexcept override;
  void interrupted(std::string_view why) noexcept;
  // Publishes the adapter as it is, if it has changed. An error becomes a line of the log.
  void publish_adapter(int64_t step) noexcept;

 private:
  engine::Host& host_;
  telemetry::Recorders recorders_;
  engine::EventSink* const next_;
  const train::Trainer* trainer_ = nullptr;
  BesideObject* beside_ = nullptr;
  telemetry::PublishedState published_;
  bool ended_ = false;  // train_end was the latest event of the run
};

// The metrics of the latest call, which the host reads until the next one.
class HeldMetrics {
 public:
  std::span<const engine::Metric> hold(telemetry::Record record);

 private:
  telemetry::Record record_;
  std::vector<engine::Metric> metrics_;  // refer to it
};

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

class EvaluatorObject final : public engine::Evaluator {
 public:
  EvaluatorObject(engine::Host& host, const engine::EvaluatorSpec& spec);
  void release() noexcept override { delete this; }
  int32_t evaluate(engine::BatchSource& rows, std::span<const engine::Metric>* metrics,
                   engine::ErrorSink& error) noexcept override;

 private:
  ~EvaluatorObject() = default;
  engine::Host& host_;
  HostLog log_;
  std::unique_ptr<train::Evaluator> evaluator_;
  HeldMetrics metrics_;
};

}  // namespace trl::entry
