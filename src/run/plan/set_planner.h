// Plans several option sets of a run over the same rows.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json/json.h"
#include "config/option_set.h"
#include "run/plan/choose_way.h"
#include "run/plan/size.h"

namespace trl::run {

class SetPlanner {
 public:
  SetPlanner(Environment& environment, const Rows* rows)  // rows: null: not read
      : environment_(environment), rows_(rows) {}

  base::Json plan(const config::Config& config);
  // Returns the plan with the name of the set; for a refused set only the name and the reason.
  base::Json plan(const config::Config& config, const config::OptionSet& set);

 private:
  struct Batches {
    RunSize size;
    int64_t embedding_rows = 0;
    std::vector<int32_t> new_tokens;
    std::shared_ptr<Tokenizer> tokenizer;  // held because a run has it in memory too
    PlansMade made;                        // under a budget
  };
  Batches& batches_of(const config::Config& config, const config::TrainingArguments& training);
  Batches read_batches(const config::Config& config, const config::TrainingArguments& training) const;

  Environment& environment_;
  const Rows* rows_;
  int64_t process_ = -1;  // bytes
  // The batches by the options that they depend on, so that rows are read once for all sets with the same
  // batches.
  std::map<std::string, Batches> batches_;
};

// Returns the result of trl_trainer_plan, with the option sets of estimate.compare. rows: null: not read.
base::Json plan_run(Environment& environment, const config::Config& config, const Rows* rows);

// Says whether an error of this status refuses a run for its options or files, so that others may continue.
bool is_refusal(Status status);

// Returns the sets that a user is likely to try next, except those that the configuration has already.
std::vector<config::OptionSet> usual_sets(const config::Config& config);

}  // namespace trl::run
