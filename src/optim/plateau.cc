// reduce_lr_on_plateau (torch/optim/lr_scheduler.py), and the choice between it and the closed forms.
#include <algorithm>
#include <cmath>

#include "optim/schedule.h"

namespace trl::optim {

bool Plateau::better(double metric) const {
  if (!seen_) return !std::isnan(metric);
  const double sign = arguments_.mode_max ? 1.0 : -1.0;
  const double margin = arguments_.threshold_abs ? arguments_.threshold : arguments_.threshold * best_;
  return sign * metric > sign * (best_ + sign * margin);
}

void Plateau::evaluated(double metric) {
  if (better(metric)) {
    best_ = metric;
    seen_ = true;
    num_bad_epochs_ = 0;
  } else {
    ++num_bad_epochs_;
  }
  if (cooldown_counter_ > 0) {
    --cooldown_counter_;
    num_bad_epochs_ = 0;
  }
  if (num_bad_epochs_ <= arguments_.patience) return;
  const double lower = std::max(learning_rate_ * arguments_.factor, arguments_.min_lr);
  if (learning_rate_ - lower > arguments_.eps) learning_rate_ = lower;
  cooldown_counter_ = arguments_.cooldown;
  num_bad_epochs_ = 0;
}

std::map<std::string, double> Plateau::state() const {
  std::map<std::string, double> state = {{"lr", learning_rate_},
                                         {"num_bad_epochs", static_cast<double>(num_bad_epochs_)},
                                         {"cooldown_counter", static_cast<double>(cooldown_counter_)}};
  if (seen_) state["best"] = best_;
  return state;
}

void Plateau::load(const std::map<std::string, double>& state) {
  const auto read = [&](const char* name, auto& out) {
    const auto found = state.find(name);
    if (found != state.end()) out = static_cast<std::remove_reference_t<decltype(out)>>(found->second);
  };
  read("lr", learning_rate_);
  read("num_bad_epochs", num_bad_epochs_);
  read("cooldown_counter", cooldown_counter_);
  read("best", best_);
  seen_ = state.contains("best");
}

Schedule::Schedule(const config::TrainingArguments& arguments, int64_t max_steps)
    : arguments_(arguments),
      max_steps_(max_steps),
      on_plateau_(arguments.lr_scheduler_type == config::Scheduler::reduce_lr_on_plateau),
      plateau_(arguments.lr_scheduler_kwargs.plateau, arguments.learning_rate) {}

double Schedule::learning_rate(int64_t done) const {
  if (on_plateau_) return plateau_.learning_rate();
  return arguments_.learning_rate * schedule_factor(arguments_, done, max_steps_);
}

std::map<std::string, double> Schedule::state() const {
  return on_plateau_ ? plateau_.state() : std::map<std::string, double>{};
}

}  // namespace trl::optim
