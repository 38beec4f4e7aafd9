// The completions of the last generation, with rewards and advantages, at each record of a run: for
// log_completions all of them in a file, and some for people; and for the report of report_to. For
// num_sample_generations those of evaluation rows, instead of log_completions.
#pragma once
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/arithmetic/python_random.h"
#include "base/json/json.h"
#include "config/online/completion_records.h"
#include "config/training_arguments.h"
#include "engine/rollout.h"
#include "engine/trainer.h"
#include "run/environment.h"
#include "run/rollout/rewards/answers.h"

namespace trl::run {

class CompletionLog {
 public:
  CompletionLog(Environment& environment, const config::RunOptions& options);
  // Forgets the completions of an earlier evaluation; those of training stay until others come.
  void start(std::string_view mode);
  // Takes over a generation. extras: by name, a value for each completion.
  void add(std::string_view mode, const Answers& answers, const engine::Rewards& rewards,
           const reward::Columns& extras, std::span<const float> advantages);
  // Writes the file of a record, and returns the completions to show, as trl.h describes the text
  // `completions` of TRL_ON_LOG; empty: none. A file that cannot be written costs a warning.
  std::string at_record(const engine::Event& event);
  // Returns what a checkpoint keeps: the completions of training, samples that no record has had, and how far
  // the draws are; null: nothing.
  base::Json state() const;
  void load(const base::Json& state);  // throws Json::exception

 private:
  struct Table {
    base::Json rewards = base::Json::array(), extras = base::Json::array();  // names
    std::vector<base::Json> rows;                                            // objects with TRL's columns
    std::vector<double> weights;                                             // of the rewards
    int64_t written_at = -1;                                                 // the step of the last file
  };
  static base::Json state_of(const Table& table);
  static Table table_of(const base::Json& json);
  // Returns the completions of a record at this step; null: it has none that were not written before.
  Table* due(std::string_view mode, int64_t step);
  template <class Body>
  void try_to(std::string_view key, Body&& body) const;  // a failure costs a warning
  void write(std::string_view mode, const Table& table) const;
  void write_for_report(const Table& table) const;
  std::vector<base::Json> to_show(const Table& table);

  Environment& environment_;
  const config::CompletionRecords options_;
  const bool reports_;  // report_to html
  const std::string output_dir_;
  const size_t most_, most_samples_;                  // rows of a table
  std::map<std::string, Table, std::less<>> tables_;  // by mode
  const uint64_t seed_;
  base::PythonRandom chance_;
};

}  // namespace trl::run
