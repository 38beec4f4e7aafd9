// A training run as libtrl.so sees it: its options, tokenizer, rows and plan, and then the engine's trainer.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/training_arguments.h"
#include "run/complete/samples.h"
#include "run/plan/memory_budget.h"
#include "run/plan/plan.h"
#include "run/rollout/rollouts.h"
#include "run/rows/prepare.h"
#include "run/tokenizer.h"

namespace trl::run {

class Run {
 public:
  // Refuses invalid options before anything is read, prepares the rows, and plans the memory. No weight is
  // read. The rows outlive the run. eval: nullable.
  Run(Environment& environment, config::Config config, const Rows& train, const Rows* eval);

  // Opens the model.
  EngineObject<engine::Model> open_model();
  // Returns the samples taken while the run trains; null: no sample_prompts. model: outlives it.
  std::unique_ptr<Samples> open_samples(engine::Model& model);
  // Makes the engine's trainer, after all rows are prepared. model, events: outlive it, and so does the run.
  EngineObject<engine::Trainer> create_trainer(engine::Model& model, engine::EventSink& events);

  // Prepares other rows as the evaluation rows of this run are. model: of the run. Throws Error(unsupported)
  // for a method that writes completions.
  Prepared prepare_evaluation(const Rows& rows, engine::Model& model) const;

  const std::shared_ptr<Tokenizer>& tokenizer() const { return tokenizer_; }
  const config::Config& options() const { return options_.config; }
  const config::OnlineArguments& online() const { return options_.arguments.online; }
  // Returns the rollouts of a method that writes completions. Throws Error(invalid_argument) for another one.
  Rollouts& rollouts();
  // Calls Rollouts::check() if the method writes completions.
  void check_rollouts() const {
    if (rollouts_) rollouts_->check();
  }
  // Writes the completions of a record, and returns those to show; empty: none.
  std::string at_record(const engine::Event& event) { return rollouts_ ? rollouts_->at_record(event) : ""; }
  bool evaluates() const { return rows_.eval != nullptr; }
  MemoryCap* cap() { return cap_ ? &*cap_ : nullptr; }  // memory_budget's; or null
  // At the end: predicts the peak of the batches that ran, which the summary of the run has.
  void predict_what_ran();
  // At the end: logs the tokens of the rows, and predicted and measured memory.
  void tell();

 private:
  void choose_way();
  void plan();
  void settle_evaluation();  // warns if evaluation has no rows
  const config::RunOptions& chosen() const { return choice_ ? choice_->options : options_; }
  RunToPlan to_plan() const { return {environment_, chosen(), model_, generation_.get()}; }

  Environment& environment_;
  const int64_t read_before_, rehearsed_before_;  // for the log
  const config::RunOptions options_;
  RunModel model_;
  const std::optional<int64_t> budget_;  // memory_budget, in bytes
  EngineObject<engine::Attention> attention_;
  std::shared_ptr<Tokenizer> tokenizer_;
  std::vector<SamplePrompt> prompts_;
  RequestOptions sample_request_;
  std::unique_ptr<const Generation> generation_;
  Prepared rows_;
  std::unique_ptr<Rollouts> rollouts_;  // or null
  std::optional<Choice> choice_;        // under a budget
  std::optional<MemoryCap> cap_;        // under a budget
  ExpectedPeak expected_, told_;        // before the run, and at the end for the batches that ran
};

}  // namespace trl::run
