// report_to csv and jsonl: log_history.csv and log_history.jsonl in output_dir, a line a record. A new run
// starts the files anew; a resumed one writes them again from its log_history and continues.
//
// csv: the columns are step, epoch and then every other name in the order in which it first appeared; cells
// of a record without the name are empty. A record with a new name widens the table: the file is replaced by
// one with the column at the right.
#include <fmt/format.h>

#include "base/files/files.h"
#include "base/json/json.h"
#include "telemetry/recorder.h"

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
    if (const size_t added = widen(record); added > 0) {
      base::replace_file(path_, widened(base::read_file(path_), added) + line(record));
    } else {
      base::append_file(path_, line(record));
    }
  }

 private:
  // Adds missing columns and returns their number.
  size_t widen(const Record& record) {
    const size_t before = columns_.size();
    for (const Entry& entry : record.entries()) {
      if (std::find(columns_.begin(), columns_.end(), entry.name) == columns_.end())
        columns_.push_back(entry.name);
    }
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
      const auto column = std::find(columns_.begin(), columns_.end(), entry.name);
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

std::unique_ptr<Recorder> make_csv(const std::string& output_dir) {
  return std::make_unique<Csv>(output_dir);
}
std::unique_ptr<Recorder> make_jsonl(const std::string& output_dir) {
  return std::make_unique<Jsonl>(output_dir);
}

}  // namespace trl::telemetry
