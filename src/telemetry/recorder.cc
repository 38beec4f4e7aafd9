#include "telemetry/recorder.h"

#include <algorithm>

#include "base/error.h"
#include "base/files/files.h"

namespace trl::telemetry {

Recorders::Recorders(const RecordTo& to, MakeReport make_report, Warn warn) : warn_(std::move(warn)) {
  const auto asked = [&](std::string_view name) {
    return std::find(to.names.begin(), to.names.end(), name) != to.names.end();
  };
  if (asked("tensorboard")) recorders_.push_back(make_tensorboard(to.output_dir, to.logging_dir));
  if (asked("csv")) recorders_.push_back(make_csv(to.output_dir));
  if (asked("jsonl")) recorders_.push_back(make_jsonl(to.output_dir));
  if (asked("html")) recorders_.push_back(make_report(to));
  if (!recorders_.empty()) base::make_directories(to.output_dir);
}

template <typename Call>
void Recorders::each(const Call& call) {
  std::erase_if(recorders_, [&](const std::unique_ptr<Recorder>& recorder) {
    try {
      call(*recorder);
      return false;
    } catch (const std::exception& error) {
      warn_(fmt::format("report_to {}: {}; nothing more is written there, and the run continues",
                        recorder->name(), error.what()));
      return true;
    }
  });
}

void Recorders::begin(const TrainerState& state) {
  if (begun_) return;
  begun_ = true;
  each([&](Recorder& recorder) { recorder.begin(state); });
}

void Recorders::begin_again(const TrainerState& state) {
  begun_ = false;
  begin(state);
}

void Recorders::add(const TrainerState& state) {
  if (!begun_) {  // the record is in the history that begin() writes
    TrainerState before = state;
    before.log_history.pop_back();
    begin(before);
  }
  each([&](Recorder& recorder) { recorder.add(state); });
}

void Recorders::saved(const TrainerState& state) {
  if (begun_) each([&](Recorder& recorder) { recorder.saved(state); });
}

void Recorders::close(const TrainerState& state, std::string_view outcome) {
  if (!begun_) return;  // the existing files belong to a run that may still be resumed
  each([&](Recorder& recorder) { recorder.close(state, outcome); });
}

}  // namespace trl::telemetry
