// Events of a run: lines of the log, and calls of the function that trl_trainer_train was given.
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "capi/callback.h"
#include "capi/trainer/trainer_handle.h"

namespace trl::capi {
namespace {

// Names an event for the log.
std::string name_of(const engine::Event& event) {
  constexpr std::string_view kNames[] = {"training begins", "step",  "record",        "evaluated",
                                         "saved",           "epoch", "training ended"};
  if (event.kind == engine::EventKind::save) return fmt::format("saved checkpoint-{}", event.step);
  if (event.kind == engine::EventKind::epoch) {
    const auto whole = static_cast<int64_t>(event.epoch);
    const bool done = static_cast<double>(whole) == event.epoch;
    return fmt::format("{} epoch {}", done ? "finished" : "stopped within", done ? whole : whole + 1);
  }
  return std::string(kNames[static_cast<size_t>(event.kind)]);
}

// Logs "evaluated at step 4 of 8, epoch 1: eval_loss 2.31, ..."; steps and records, which are frequent, as
// debug lines.
void write_line(const engine::Event& event) {
  RuntimeLog* const log = current_log();
  if (log == nullptr) return;
  const bool often = event.kind == engine::EventKind::step || event.kind == engine::EventKind::log;
  std::string line = fmt::format("{} at step {} of {}, epoch {:.4g}", name_of(event), event.step,
                                 event.max_steps, event.epoch);
  std::string_view before = ": ";
  for (const engine::Metric& metric : event.metrics) {
    if (metric.name == "step" || metric.name == "epoch") continue;
    line += fmt::format("{}{} {:.6g}", std::exchange(before, ", "), metric.name, metric.value);
  }
  log->write(often ? base::LogLevel::debug : base::LogLevel::info, "train", line);
}

}  // namespace

int32_t Trainer::Events::on_event(const engine::Event& event) noexcept {
  try {
    write_line(event);
    if (samples != nullptr) samples->on_event(event);
    std::string completions;
    if (event.kind == engine::EventKind::log) completions = run->at_record(event);
    const bool begins = event.kind == engine::EventKind::train_begin;
    if (begins) begun_.assign(event.metrics);
    if (function == nullptr) return 0;
    // After steps without a function, that event comes before the first other one.
    const bool late = !std::exchange(told_, true) && !begins;
    const int32_t before = late ? tell(engine::EventKind::train_begin, event, begun_) : 0;
    trl_metrics metrics;
    metrics.assign(event.metrics);
    if (!event.path.empty()) metrics.texts.push_back({"path", std::string(event.path)});
    if (!completions.empty()) metrics.texts.push_back({"completions", std::move(completions)});
    return before | tell(event.kind, event, metrics);
  } catch (...) {
    if (failure == nullptr) failure = std::current_exception();
    return engine::kEventStop;
  }
}

int32_t Trainer::Events::tell(engine::EventKind kind, const engine::Event& event,
                              trl_metrics& metrics) const {
  metrics.add_if_missing("step", static_cast<double>(event.step));
  metrics.add_if_missing("max_steps", static_cast<double>(event.max_steps));
  metrics.add_if_missing("epoch", event.epoch);
  const int32_t answer =
      call_host("event", [&] { return function(user_data, static_cast<int32_t>(kind), &metrics); });
  if (answer < 0) fail_callback("event", answer);
  return answer;
}

}  // namespace trl::capi
