// Schedules against the recorded ones of transformers, read through the configuration as a run reads them.
#include "optim/schedule.h"

#include "support/golden.h"

namespace trl::optim {
namespace {

config::TrainingArguments schedule_of(const base::Json& c) {
  config::Config config;
  config.set("learning_rate", "1");  // so that min_lr and lr_end are factors
  config.set("lr_scheduler_type", c["name"].get<std::string>());
  config.set("warmup_steps", c["warmup_steps"].dump());
  config.set("lr_scheduler_kwargs", c["kwargs"].dump());
  return config::training_arguments(config);
}

TEST(Schedule, golden) {
  TRL_NEED_GOLDEN("optim/schedules.json");
  int cases = 0;
  for (const base::Json& c : test::golden_json("optim/schedules.json")["cases"]) {
    ++cases;
    const config::TrainingArguments arguments = schedule_of(c);
    const Schedule schedule(arguments, c["training_steps"]);
    const base::Json& factors = c["lr_factor_per_step"];
    for (size_t i = 0; i < factors.size(); ++i) {
      const double got = schedule.learning_rate(static_cast<int64_t>(i));
      EXPECT_TRUE(test::close(got, factors[i], test::limits::function))
          << c["name"] << c["kwargs"] << " update " << i << ": " << got << " instead of " << factors[i];
    }
    EXPECT_TRUE(schedule.state().empty());
  }
  EXPECT_EQ(cases, 24);
}

TEST(Schedule, warmup_ratio_golden) {
  TRL_NEED_GOLDEN("optim/warmup_steps.json");
  int cases = 0;
  for (const base::Json& c : test::golden_json("optim/warmup_steps.json")["cases"]) {
    ++cases;
    config::TrainingArguments arguments;
    arguments.lr_scheduler_type = config::Scheduler::constant_with_warmup;
    arguments.warmup_steps = c["warmup_steps_arg"];
    const int64_t warmup = c["get_warmup_steps"];
    const int64_t steps = c["num_training_steps"];
    EXPECT_EQ(schedule_factor(arguments, warmup, steps), 1.0);
    EXPECT_EQ(schedule_factor(arguments, warmup - 1, steps),
              static_cast<double>(warmup - 1) / static_cast<double>(warmup));
  }
  EXPECT_EQ(cases, 5);
}

// Worked through by hand from torch's ReduceLROnPlateau: patience 1, cooldown 1, factor 0.5.
TEST(Plateau, falls_after_patience_and_waits_through_the_cooldown) {
  config::PlateauArguments arguments;
  arguments.factor = 0.5;
  arguments.patience = 1;
  arguments.cooldown = 1;
  arguments.min_lr = 0.2;
  Plateau plateau(arguments, 1.0);
  const std::pair<double, double> steps[] = {{3.0, 1.0},     // the best
                                             {3.0, 1.0},     // bad 1
                                             {2.9999, 0.5},  // above 3 (1 - 1e-4): bad 2
                                             {5.0, 0.5},     // cooldown
                                             {5.0, 0.5},     // bad 1
                                             {5.0, 0.25},    // bad 2
                                             {2.0, 0.25},    // the best
                                             {2.0, 0.25},    // bad 1
                                             {2.0, 0.2}};    // bad 2, not below min_lr
  for (const auto& [metric, rate] : steps) {
    plateau.evaluated(metric);
    EXPECT_EQ(plateau.learning_rate(), rate) << metric;
    Plateau copy(arguments, 1.0);  // state() is all there is
    copy.load(plateau.state());
    EXPECT_EQ(copy.state(), plateau.state());
  }
}

TEST(Plateau, the_largest_is_best_with_mode_max_and_absolute_threshold) {
  config::PlateauArguments arguments;
  arguments.mode_max = true;
  arguments.threshold_abs = true;
  arguments.threshold = 0.5;
  arguments.patience = 0;
  Plateau plateau(arguments, 1.0);
  plateau.evaluated(1.0);
  plateau.evaluated(1.6);
  EXPECT_EQ(plateau.learning_rate(), 1.0);
  plateau.evaluated(2.0);  // not above 2.1
  EXPECT_DOUBLE_EQ(plateau.learning_rate(), 0.1);
}

}  // namespace
}  // namespace trl::optim
