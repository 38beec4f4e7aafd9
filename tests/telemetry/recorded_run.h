// A run whose records go where report_to says.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/files/files.h"
#include "telemetry/recorder.h"

namespace trl::telemetry {

namespace fs = std::filesystem;
using Lines = std::vector<std::string>;

class Records : public testing::Test {
 protected:
  Records() {
    to.output_dir = (fs::temp_directory_path() / ("trl_recorder_test_" + std::to_string(getpid()))).string();
    fs::remove_all(to.output_dir);
    to.title = "sft of <tiny>";
    to.facts = {{"model", "models/tiny & small"}};
    to.options = {{"learning_rate", "0.002"}};
  }
  ~Records() override { fs::remove_all(to.output_dir); }

  void start(const Lines& names) {
    to.names = names;
    recorders = std::make_unique<Recorders>(to, make_report,
                                            [this](const std::string& line) { warnings.push_back(line); });
  }
  void train(int64_t step, double loss) {
    Record record;
    record.set("loss", loss);
    record.set("num_tokens", static_cast<double>(100 * step));
    state.seconds += 60;
    state.speeds.push_back({step, 100.0 / 60});
    log(std::move(record), step);
  }
  void evaluate(int64_t step, double loss) {
    Record record;
    record.set("eval_loss", loss);
    log(std::move(record), step);
  }
  void log(Record record, int64_t step) {
    state.global_step = step;
    record.set("epoch", static_cast<double>(step) / 4);
    record.set_integer("step", step);
    state.log_history.push_back(std::move(record));
    recorders->add(state);
  }
  // As a run that resumes from the checkpoint after `records` records, at this step.
  void resume(size_t records, int64_t step, const Lines& names) {
    state.log_history.resize(records);
    state.global_step = step;
    start(names);
    recorders->begin(state);
  }
  std::string path(const std::string& name) const { return base::join_path(to.output_dir, name); }
  Lines lines(const std::string& name) const {
    Lines out;
    std::string text = base::read_file(path(name));
    EXPECT_TRUE(text.empty() || text.ends_with('\n'));
    for (size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
      out.push_back(text.substr(at, end - at));
    return out;
  }
  std::string event_folder() const { return path("runs/" + base::list_directory(path("runs")).at(0)); }

  RecordTo to;
  MakeReport make_report = nullptr;
  TrainerState state;
  Lines warnings;
  std::unique_ptr<Recorders> recorders;
};

}  // namespace trl::telemetry
