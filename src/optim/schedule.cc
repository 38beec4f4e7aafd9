// Learning rate schedules of transformers.get_scheduler (transformers/optimization.py).
#include <cmath>

#include "optim/optim.h"

namespace trl::optim {

namespace {

int64_t warmup_updates(double warmup_steps, int64_t max_steps) {
  return warmup_steps >= 1 ? static_cast<int64_t>(warmup_steps)
                           : static_cast<int64_t>(std::ceil(static_cast<double>(max_steps) * warmup_steps));
}

}  // namespace

double schedule_factor(const config::TrainingArguments& arguments, int64_t done, int64_t max_steps) {
  using config::Scheduler;
  if (arguments.lr_scheduler_type == Scheduler::constant) return 1.0;
  const int64_t warmup = warmup_updates(arguments.warmup_steps, max_steps);
  if (done < warmup) return static_cast<double>(done) / static_cast<double>(std::max<int64_t>(1, warmup));
  const double rest = static_cast<double>(std::max<int64_t>(1, max_steps - warmup));
  switch (arguments.lr_scheduler_type) {
    case Scheduler::linear:
      return std::max(0.0, static_cast<double>(max_steps - done) / rest);
    case Scheduler::cosine: {
      const double progress = static_cast<double>(done - warmup) / rest;
      return std::max(0.0, 0.5 * (1.0 + std::cos(M_PI * arguments.num_cycles * 2.0 * progress)));
    }
    case Scheduler::constant_with_warmup:
    case Scheduler::constant:
      break;
  }
  return 1.0;
}

}  // namespace trl::optim
