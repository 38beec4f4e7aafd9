// The learning rate over the updates of a run (transformers' get_scheduler).
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "config/training_arguments.h"

namespace trl::optim {

// The factor of the base learning rate for the update after `done` updates; 1 for reduce_lr_on_plateau.
double schedule_factor(const config::TrainingArguments& arguments, int64_t done, int64_t max_steps);

// torch's ReduceLROnPlateau: the rate falls when a metric has not improved for a while.
class Plateau {
 public:
  Plateau(const config::PlateauArguments& arguments, double learning_rate)
      : arguments_(arguments), learning_rate_(learning_rate) {}
  double learning_rate() const { return learning_rate_; }
  void evaluated(double metric);

  // The state that later rates depend on, under torch's names; has no `best` before the first evaluation.
  std::map<std::string, double> state() const;
  void load(const std::map<std::string, double>& state);  // a missing entry stays unchanged

 private:
  bool better(double metric) const;

  const config::PlateauArguments arguments_;
  double learning_rate_;
  bool seen_ = false;
  double best_ = 0;
  int64_t num_bad_epochs_ = 0;
  int64_t cooldown_counter_ = 0;
};

// The schedule that lr_scheduler_type names.
class Schedule {
 public:
  Schedule(const config::TrainingArguments& arguments, int64_t max_steps);
  double learning_rate(int64_t done) const;  // for the update after `done` updates
  // metric: metric_for_best_model, or eval_loss
  void evaluated(double metric) {
    if (on_plateau_) plateau_.evaluated(metric);
  }
  // Empty if the learning rate only depends on the number of updates.
  std::map<std::string, double> state() const;
  void load(const std::map<std::string, double>& state) { plateau_.load(state); }

 private:
  const config::TrainingArguments& arguments_;  // the trainer's, which outlives this
  const int64_t max_steps_;
  const bool on_plateau_;
  Plateau plateau_;
};

}  // namespace trl::optim
