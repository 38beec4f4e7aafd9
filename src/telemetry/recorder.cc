#include "telemetry/recorder.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/files/files.h"
#include "base/text/message_text.h"
#include "telemetry/scored.h"

namespace trl::telemetry {

namespace {

class Csv final : public Recorder {
 public:
  explicit Csv(const std::string& output_dir) : path_(base::join_path(output_dir, "log_history.csv")) {}
  std::string_view name() const override { return "csv"; }

  void begin(const TrainerState& state) override {
    columns_ = {"step", "epoch"};
    for (const Record& record : state.log_history) widen(record);
    std::string text = header();
    for (const Record& record : state.log_history) text += line(record);
    base::replace_file(path_, text);
  }

  void add(const TrainerState& state) override {
    const Record& record = state.log_history.back();
    if (const size_t added = widen(record); added > 0)
      base::replace_file(path_, widened(base::read_file(path_), added) + line(record));
    else
      base::append_file(path_, line(record));
  }

 private:
  // Adds missing columns and returns their number.
  size_t widen(const Record& record) {
    const size_t before = columns_.size();
    for (const Entry& entry : record.entries())
      if (std::ranges::find(columns_, entry.name) == columns_.end()) columns_.push_back(entry.name);
    return columns_.size() - before;
  }
  std::string header() const { return fmt::format("{}\n", fmt::join(columns_, ",")); }
  std::string widened(const std::string& table, size_t added) const {
    std::string text = header();
    const std::string cells = std::string(added, ',') + "\n";
    for (size_t at = table.find('\n') + 1; at < table.size();) {
      const size_t end = table.find('\n', at);
      text += table.substr(at, end - at) + cells;
      at = end == std::string::npos ? end : end + 1;
    }
    return text;
  }
  std::string line(const Record& record) const {
    std::vector<std::string> cells(columns_.size());
    for (const Entry& entry : record.entries()) {
      const auto column = std::ranges::find(columns_, entry.name);
      cells[static_cast<size_t>(column - columns_.begin())] = to_text(entry);
    }
    return fmt::format("{}\n", fmt::join(cells, ","));
  }

  const std::string path_;
  std::vector<std::string> columns_;
};

class Jsonl final : public Recorder {
 public:
  explicit Jsonl(const std::string& output_dir) : path_(base::join_path(output_dir, "log_history.jsonl")) {}
  std::string_view name() const override { return "jsonl"; }
  void begin(const TrainerState& state) override {
    std::string text;
    for (const Record& record : state.log_history) text += line(record);
    base::replace_file(path_, text);
  }
  void add(const TrainerState& state) override { base::append_file(path_, line(state.log_history.back())); }

 private:
  static std::string line(const Record& record) {
    std::string text;
    for (const Entry& entry : record.entries()) {
      text += fmt::format("{}{}: {}", text.empty() ? "{" : ", ", base::Json(entry.name).dump(-1, ' ', true),
                          to_text(entry));
    }
    return text.empty() ? "{}\n" : text + "}\n";
  }
  const std::string path_;
};

}  // namespace

std::string samples_path(const std::string& output_dir) {
  return base::join_path(output_dir, "samples.jsonl");
}

std::string sample_line(const Sample& sample) {
  return base::text_or_json({{"step", sample.step},
                             {"epoch", sample.epoch},
                             {"prompt", sample.prompt},
                             {"completion", sample.completion}}) +
         "\n";
}

std::vector<Sample> read_samples(const std::string& path) {
  std::vector<Sample> samples;
  each_object(path, [&](const base::Json& line) {
    const auto is = [&](const char* name, auto check) {
      return line.contains(name) && (line[name].*check)();
    };
    if (!is("step", &base::Json::is_number_integer) || !is("epoch", &base::Json::is_number) ||
        !is("completion", &base::Json::is_string) || !line.contains("prompt"))
      return;
    samples.push_back({line["step"].get<int64_t>(), line["epoch"].get<double>(), line["prompt"],
                       line["completion"].get<std::string>()});
  });
  return samples;
}

std::string prompt_text(const base::Json& prompt) {
  if (prompt.is_string()) return prompt.get<std::string>();
  std::string text;
  for (const base::Json& message : prompt) {
    if (!message.is_object()) continue;
    const base::MessageText own = base::message_text(message);
    text += fmt::format("{}{}:", text.empty() ? "" : "\n", own.role);
    for (const std::string& part : own.parts) text += " " + part;
  }
  return text;
}

Recorders::Recorders(const RecordTo& to, MakeReport make_report, Warn warn) : warn_(std::move(warn)) {
  const auto asked = [&](std::string_view name) {
    return std::ranges::find(to.names, name) != to.names.end();
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

std::unique_ptr<Recorder> make_csv(const std::string& output_dir) {
  return std::make_unique<Csv>(output_dir);
}
std::unique_ptr<Recorder> make_jsonl(const std::string& output_dir) {
  return std::make_unique<Jsonl>(output_dir);
}

}  // namespace trl::telemetry
