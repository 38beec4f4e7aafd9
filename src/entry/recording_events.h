// Records the events of a run on their way to the host.
#pragma once
#include <string_view>

#include "config/config.h"
#include "config/training_arguments.h"
#include "engine/host.h"
#include "engine/trainer.h"
#include "entry/beside_object.h"
#include "telemetry/published_state.h"
#include "telemetry/recorder.h"
#include "train/trainer/trainer.h"

namespace trl::entry {

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

}  // namespace trl::entry
