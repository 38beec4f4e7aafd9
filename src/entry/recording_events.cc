#include "entry/recording_events.h"

#include <utility>

#include "base/files/files.h"
#include "base/log.h"
#include "base/memory/system_memory.h"
#include "base/text/number.h"
#include "report/page.h"

namespace trl::entry {

namespace {

telemetry::Facts options_of(const config::Config& config) {
  telemetry::Facts options;
  for (const auto& [key, value] : config.values())
    if (const config::Option* option = config::find_option(key);
        value != config::default_of(*option, config.method().name))
      options.emplace_back(key, value);
  return options;
}

telemetry::Facts facts_of(const config::Config& config, const config::TrainingArguments& arguments,
                          const engine::TrainerSpec& spec) {
  telemetry::Facts facts = {
      {"model", config.get("model_name_or_path")},
      {"parameters", std::to_string(spec.model->parameter_count())},
      {"method", arguments.method->name},
      {"training rows",
       std::to_string(spec.rollouts != nullptr ? spec.rollouts->train->prompts() : spec.train->rows())}};
  if (config.is_set("dataset_name")) facts.emplace_back("dataset", config.get("dataset_name"));
  if (spec.eval != nullptr) facts.emplace_back("evaluation rows", std::to_string(spec.eval->rows()));
  if (spec.rollouts != nullptr && spec.rollouts->eval != nullptr)
    facts.emplace_back("evaluation rows", std::to_string(spec.rollouts->eval->prompts()));
  facts.emplace_back("rows a step", std::to_string(arguments.per_device_train_batch_size *
                                                   arguments.gradient_accumulation_steps));
  facts.emplace_back("output_dir", arguments.output_dir);
  facts.emplace_back("libtrl", TRL_VERSION_STRING);
  return facts;
}

// Returns the memory facts of the process: its measured values include the memory of others in it.
telemetry::Facts memory_facts(engine::Host& host, const engine::Prediction& predicted) {
  const auto both = [](int64_t of_plan, int64_t measured) {
    return fmt::format("{} predicted, {} measured", base::bytes_text(of_plan), base::bytes_text(measured));
  };
  telemetry::Facts facts = {{"resident, at most", both(predicted.peak, base::peak_resident_bytes())}};
  for (int32_t i = 0; i < base::kMemoryKinds; ++i) {
    facts.emplace_back(base::measured_kind_name(static_cast<base::MemoryKind>(i)),
                       both(predicted.kinds[static_cast<size_t>(i)], host.memory_peak(i)));
  }
  return facts;
}

telemetry::RecordTo record_to(engine::Host& host, const config::Config& config,
                              const config::TrainingArguments& arguments, const engine::TrainerSpec& spec) {
  std::string model = config.get("model_name_or_path");
  while (model.size() > 1 && model.ends_with('/')) model.pop_back();
  telemetry::RecordTo to = {arguments.report_to,
                            arguments.output_dir,
                            arguments.logging_dir,
                            fmt::format("{} of {}", arguments.method->name, base::file_name(model)),
                            facts_of(config, arguments, spec),
                            options_of(config)};
  if (config.get_text("sample_prompts")) to.samples = telemetry::samples_path(arguments.output_dir);
  if (spec.rollouts != nullptr) to.scored = telemetry::scored_path(arguments.output_dir);
  if (spec.prediction != nullptr && spec.prediction->peak > 0)
    to.memory = [&host, predicted = spec.prediction] { return memory_facts(host, *predicted); };
  return to;
}

}  // namespace

RecordingEvents::RecordingEvents(engine::Host& host, const config::Config& config,
                                 const config::TrainingArguments& arguments, const engine::TrainerSpec& spec)
    : host_(host),
      recorders_(record_to(host, config, arguments, spec), report::make_html,
                 [&host](const std::string& line) {
                   host.log(static_cast<int32_t>(base::LogLevel::warning), "records", line);
                 }),
      next_(spec.events) {}

void RecordingEvents::publish_adapter(int64_t step) noexcept {
  if (beside_ == nullptr) return;
  try {
    beside_->publish(step);
  } catch (const std::exception& error) {
    host_.log(static_cast<int32_t>(base::LogLevel::warning), "serve", error.what());
  }
}

int32_t RecordingEvents::on_event(const engine::Event& event) noexcept {
  publish();
  if (event.kind == engine::EventKind::step) publish_adapter(event.step);
  const auto host_answer = [&] { return next_ != nullptr ? next_->on_event(event) : 0; };
  const telemetry::TrainerState& state = trainer_->state();
  try {
    if (event.kind == engine::EventKind::train_begin)
      std::exchange(ended_, false) ? recorders_.begin_again(state) : recorders_.begin(state);
    if (event.kind == engine::EventKind::log) recorders_.add(state);
    if (event.kind == engine::EventKind::save) recorders_.saved(state);
    if (event.kind == engine::EventKind::train_end) {
      ended_ = true;
      recorders_.close(state, event.step >= event.max_steps
                                  ? std::string("finished")
                                  : fmt::format("stopped after step {} of {}", event.step, event.max_steps));
    }
  } catch (...) {  // no memory for a line: the host still gets the event
    return host_answer();
  }
  return host_answer();
}

void RecordingEvents::interrupted(std::string_view why) noexcept {
  try {
    recorders_.close(trainer_->state(), why);
  } catch (...) {
    return;  // no memory for the report: its error is on its way to the host
  }
}

}  // namespace trl::entry
