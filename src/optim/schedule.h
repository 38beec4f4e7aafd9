// The learning rate over the updates of a run (transformers' get_scheduler).
#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "config/training_arguments.h"

namespace trl::optim {

// Factor of the base learning rate for the update after `done` updates; of reduce_lr_on_plateau: 1.
double schedule_factor(const config::TrainingArguments& arguments, int64_t done, int64_t max_steps);

// torch's ReduceLROnPlateau: the rate falls when a metric has not improved for a while.
class Plateau {
 public:
  Plateau(const config::PlateauArguments& arguments, double learning_rate)
      : arguments_(arguments), learning_rate_(learning_rate) {}
  double learning_rate() const { return learning_rate_; }
  void evaluated(double metric);

  // Everything that a later rate depends on, by torch's names, without `best` before the first evaluation.
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

// The one that lr_scheduler_type names.
class Schedule {
 public:
  Schedule(const config::TrainingArguments& arguments, int64_t max_steps);
  double learning_rate(int64_t done) const;  // for the update after `done` updates
  void evaluated(double metric) {            // metric_for_best_model, or eval_loss
    if (on_plateau_) plateau_.evaluated(metric);
  }
  // Empty where the learning rate is a function of the update alone.
  std::map<std::string, double> state() const;
  void load(const std::map<std::string, double>& state) { plateau_.load(state); }

 private:
  const config::TrainingArguments& arguments_;  // of the trainer, which outlives this
  const int64_t max_steps_;
  const bool on_plateau_;
  Plateau plateau_;
};

}  // namespace trl::optim
