// Plans several option sets of a run over the same rows.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json/json.h"
#include "config/option_set.h"
#include "run/plan/size.h"

namespace trl::run {

class SetPlanner {
 public:
  SetPlanner(Environment& environment, const Rows* rows)  // rows: null: not read
      : environment_(environment), rows_(rows) {}

  base::Json plan(const config::Config& config);
  // With the name of the set; of one that is refused, the reason and nothing else.
  base::Json plan(const config::Config& config, const config::OptionSet& set);

 private:
  struct Batches {
    RunSize size;
    int64_t embedding_rows = 0;
    std::vector<int32_t> new_tokens;
    std::shared_ptr<Tokenizer> tokenizer;  // a run has it in its memory, too
  };
  const Batches& batches_of(const config::Config& config, const config::TrainingArguments& training);
  Batches read_batches(const config::Config& config, const config::TrainingArguments& training) const;

  Environment& environment_;
  const Rows* rows_;
  int64_t process_ = -1;  // bytes
  // By the options that they depend on, so that rows are read once for all sets that make the same batches.
  std::map<std::string, Batches> batches_;
};

// What trl_trainer_plan says, with the option sets of estimate.compare. rows: null: not read.
base::Json plan_run(Environment& environment, const config::Config& config, const Rows* rows);

// Whether an error of this status refuses a run for its options or files, so that others may go on.
bool is_refusal(Status status);

// What a user is likely to try next, without what the configuration has already.
std::vector<config::OptionSet> usual_sets(const config::Config& config);

}  // namespace trl::run
