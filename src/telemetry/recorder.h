// Writes the records of a run to other files than trainer_state.json: one recorder for each name in
// report_to. A recorder keeps no file open, and its content after begin() is that of the state's log_history,
// so that a resumed run continues without a gap and without a repeated step.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "telemetry/trainer_state.h"

namespace trl::telemetry {

// An object of samples.jsonl in output_dir, a line each: completions of fixed prompts while a run trains.
struct Sample {
  int64_t step = 0;
  double epoch = 0;
  base::Json prompt;  // a text, or a list of messages
  std::string completion;
};

std::string samples_path(const std::string& output_dir);
std::string sample_line(const Sample& sample);
// Reads the samples of a file. Lines that are not samples are left out, such as an incomplete last line.
// Without a file: empty.
std::vector<Sample> read_samples(const std::string& path);

std::string prompt_text(const base::Json& prompt);  // for people: messages, each with its role and its calls

class Recorder {
 public:
  virtual ~Recorder() = default;
  virtual std::string_view name() const = 0;  // as in report_to
  // Called before the first record of this process. state.log_history: the earlier records of a resumed run.
  virtual void begin(const TrainerState& state) = 0;
  virtual void add(const TrainerState& state) = 0;  // log_history.back() is new
  virtual void saved(const TrainerState&) {}        // a checkpoint
  // The run is over or paused; outcome: one line for people. May be called more than once.
  virtual void close(const TrainerState&, std::string_view /*outcome*/) {}
};

using Facts = std::vector<std::pair<std::string, std::string>>;

struct RecordTo {
  std::vector<std::string> names;  // of report_to; names of trackers are ignored
  std::string output_dir;
  std::string logging_dir;  // for tensorboard; empty: a new folder in output_dir/runs
  std::string title;        // for the report
  Facts facts, options;     // for the report: facts of the run, and the options set
  // For the report: each term's predicted and measured bytes; or empty.
  std::function<Facts()> memory = {};
  std::string samples = {};  // for the report: the file of the run's samples, or empty
  std::string scored = {};   // likewise of the last completions with rewards
};

std::unique_ptr<Recorder> make_csv(const std::string& output_dir);
std::unique_ptr<Recorder> make_jsonl(const std::string& output_dir);
std::unique_ptr<Recorder> make_tensorboard(const std::string& output_dir, const std::string& logging_dir);
// Makes the report (html), which belongs to another room: report/page.h.
using MakeReport = std::unique_ptr<Recorder> (*)(const RecordTo& to);

// All recorders. A recorder that cannot write is reported once and dropped: training matters more than its
// record.
class Recorders {
 public:
  using Warn = std::function<void(const std::string& line)>;
  // Makes the directories. make_report: null if names has no html. Throws Error(io).
  Recorders(const RecordTo& to, MakeReport make_report, Warn warn);
  // Calls begin() before the first record. state.log_history ends with the new record.
  void add(const TrainerState& state);
  void begin(const TrainerState& state);
  void begin_again(const TrainerState& state);  // for a run that continues after its end
  void saved(const TrainerState& state);
  void close(const TrainerState& state, std::string_view outcome);

 private:
  template <typename Call>
  void each(const Call& call);
  std::vector<std::unique_ptr<Recorder>> recorders_;
  Warn warn_;
  bool begun_ = false;
};

}  // namespace trl::telemetry
