// The event sink between the trainer and the host: writes the files that report_to asks for, then tells the
// host.
#pragma once
#include <memory>
#include <string_view>

#include "config/training_arguments.h"
#include "engine/engine.h"
#include "entry/model_object.h"
#include "telemetry/recorder.h"

namespace trl::entry {

class RecordingEvents final : public engine::EventSink {
 public:
  // arguments: the values of config.
  RecordingEvents(engine::Host& host, const config::Config& config,
                  const config::TrainingArguments& arguments, const engine::TrainerSpec& spec);
  // Call before the first event; the state outlives the events.
  void watch(const telemetry::TrainerState& state) { state_ = &state; }
  int32_t on_event(const engine::Event& event) noexcept override;
  void interrupted(std::string_view why) noexcept;

 private:
  telemetry::Recorders recorders_;
  engine::EventSink* const next_;
  const telemetry::TrainerState* state_ = nullptr;
  bool ended_ = false;  // train_end was the latest event of the run
};

}  // namespace trl::entry
