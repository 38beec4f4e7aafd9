// Writes the files of a run: models, and checkpoints with how many of them are kept and which is the best.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "telemetry/trainer_state.h"
#include "train/run/run_state.h"
#include "train/run/setup.h"
#include "train/stepper/stepper.h"

namespace trl::train {

// Checks, before rows and weights are read, that output_dir can take this run and that the checkpoint of
// resume_from_checkpoint exists. saves_model: the run saves a model there, not an adapter. Throws Error with
// the key.
void check_output(const config::TrainingArguments& arguments, bool saves_model);

class Saving {
 public:
  // All arguments outlive it. A checkpoint changes best_model_checkpoint in `state`.
  Saving(const Setup& setup, const Stepper& stepper, telemetry::TrainerState& state);

  // Takes output_dir for this run, until end(). Other checkpoints there are treated as the options say.
  // resumed: the run had begun in another process.
  void begin(bool resumed);
  void end() { lock_.reset(); }

  // directory empty: the place where the run itself would save.
  void model(const std::string& directory) const;   // or the trained adapter
  void merged(const std::string& directory) const;  // the model with that adapter in its weights
  // json: trl_state.json. source: the state of the source of batches. stopping: the run takes no further
  // step.
  void checkpoint(const std::string& directory, const base::Json& json, const std::string& source,
                  bool stopping);
  std::string checkpoint_directory() const;  // <output_dir>/checkpoint-<step>
  // save_total_limit: removes old checkpoints. A failure to remove one is a warning.
  void rotate(bool keep_newest);
  // Notes whether an evaluation is the best so far. Returns whether it is.
  bool note_best(const telemetry::Record& evaluation);
  // load_best_model_at_end.
  void load_best();
  bool loaded_best() const { return loaded_best_; }  // the weights are those of another step
  // Continues the run of a checkpoint. directory: of the newest one; empty: there is none.
  void continue_run(const std::string& run, const std::string& directory);
  const std::string& last_checkpoint() const { return last_; }  // that it wrote or continues from; or empty

 private:
  const config::TrainingArguments& arguments() const { return setup_.arguments; }
  std::vector<std::string_view> tags() const;
  void write_model(const std::string& directory) const;

  const Setup& setup_;
  const Stepper& stepper_;
  telemetry::TrainerState& state_;
  std::string run_;  // one name for all its checkpoints
  std::string last_;
  std::shared_ptr<void> lock_;  // of output_dir
  bool loaded_best_ = false;
};

}  // namespace trl::train
