// Learning rate schedules of transformers.get_scheduler (transformers/optimization.py): the closed forms.
// reduce_lr_on_plateau (torch/optim/lr_scheduler.py), and the choice between it and the closed forms.
#include "optim/schedule.h"

#include <algorithm>
#include <cmath>

namespace trl::optim {

namespace {

using config::Curve;
using config::ScheduleArguments;
using config::Scheduler;

double share(int64_t part, int64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max<int64_t>(1, whole));
}

double wave(double num_cycles, double progress) {
  return 0.5 * (1.0 + std::cos(M_PI * num_cycles * 2.0 * progress));
}

// Falls from 1 to `floor` as factor falls from 1 to 0.
double above(double floor, double factor) { return std::max(0.0, factor * (1.0 - floor) + floor); }

double inverse_sqrt(const ScheduleArguments& a, int64_t done, int64_t warmup) {
  const int64_t timescale = a.timescale.value_or(warmup > 0 ? warmup : 10'000);
  return 1.0 / std::sqrt((static_cast<double>(done - warmup) + static_cast<double>(timescale)) /
                         static_cast<double>(timescale));
}

double polynomial(const ScheduleArguments& a, double learning_rate, double progress) {
  const double end = a.lr_end / learning_rate;
  if (progress > 1.0) return end;
  return (1.0 - end) * std::pow(1.0 - progress, a.power) + end;
}

double cosine_warmup_with_min_lr(const ScheduleArguments& a, int64_t done, int64_t max_steps,
                                 int64_t warmup) {
  if (done >= warmup)
    return above(a.min_lr_rate, wave(a.num_cycles, share(done - warmup + 1, max_steps - warmup)));
  if (!a.warmup_lr_rate) return share(done + 1, warmup);
  return *a.warmup_lr_rate + (1.0 - *a.warmup_lr_rate) * share(done, warmup - 1);
}

double falling(Curve curve, double num_cycles, double progress) {
  if (curve == Curve::linear) return 1.0 - progress;
  return curve == Curve::cosine ? wave(num_cycles, progress) : 1.0 - std::sqrt(progress);
}

double rising(Curve curve, double progress) {
  if (curve == Curve::linear) return progress;
  return curve == Curve::cosine ? 0.5 * (1.0 - std::cos(M_PI * progress)) : 1.0 - std::sqrt(1.0 - progress);
}

double warmup_stable_decay(const ScheduleArguments& a, int64_t done, int64_t max_steps, int64_t warmup) {
  if (done < warmup) return above(a.min_lr_ratio, rising(a.warmup_type, share(done, warmup)));
  const int64_t decay = a.num_decay_steps;
  const int64_t start = warmup + a.num_stable_steps.value_or(max_steps - warmup - decay);
  if (done < start) return 1.0;
  if (done >= start + decay) return a.min_lr_ratio;
  return above(a.min_lr_ratio, falling(a.decay_type, a.num_cycles, share(done - start, decay)));
}

}  // namespace

double schedule_factor(const config::TrainingArguments& arguments, int64_t done, int64_t max_steps) {
  const ScheduleArguments& a = arguments.lr_scheduler_kwargs;
  const Scheduler type = arguments.lr_scheduler_type;
  if (type == Scheduler::constant || type == Scheduler::reduce_lr_on_plateau) return 1.0;
  const int64_t warmup = config::update_count(arguments.warmup_steps, max_steps);
  if (type == Scheduler::cosine_warmup_with_min_lr)
    return cosine_warmup_with_min_lr(a, done, max_steps, warmup);
  if (type == Scheduler::warmup_stable_decay) return warmup_stable_decay(a, done, max_steps, warmup);
  if (done < warmup) return share(done, warmup);
  const double progress = share(done - warmup, max_steps - warmup);
  switch (type) {
    case Scheduler::linear:
      return std::max(0.0, share(max_steps - done, max_steps - warmup));
    case Scheduler::cosine:
      return std::max(0.0, wave(a.num_cycles, progress));
    case Scheduler::cosine_with_restarts:
      if (progress >= 1.0) return 0.0;
      return std::max(0.0, wave(0.5, std::fmod(a.num_cycles * progress, 1.0)));
    case Scheduler::polynomial:
      return polynomial(a, arguments.learning_rate, progress);
    case Scheduler::inverse_sqrt:
      return inverse_sqrt(a, done, warmup);
    case Scheduler::cosine_with_min_lr:
      return above(a.min_lr_rate, wave(a.num_cycles, progress));
    case Scheduler::constant_with_warmup:
    case Scheduler::constant:
    case Scheduler::reduce_lr_on_plateau:
    case Scheduler::cosine_warmup_with_min_lr:
    case Scheduler::warmup_stable_decay:
      break;
  }
  return 1.0;
}

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
