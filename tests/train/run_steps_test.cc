// Trainer's arithmetic of steps, epochs, and when to log and evaluate; what a run needs of its completions.
#include "train/run/run_steps.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "train/rollout/run_ahead.h"

namespace trl::train {
namespace {

config::TrainingArguments arguments() {
  config::TrainingArguments a;
  a.per_device_train_batch_size = 4;
  a.gradient_accumulation_steps = 2;
  return a;
}

TEST(RunSteps, by_epochs) {
  config::TrainingArguments a = arguments();
  a.num_train_epochs = 2.5;
  const RunSteps steps = run_steps(a, 7, 26);
  EXPECT_EQ(steps.updates_per_epoch, 4);
  EXPECT_EQ(steps.max_steps, 10);
  EXPECT_EQ(steps.num_train_epochs, 3);
  EXPECT_EQ(steps.num_train_samples, 65.0);
  EXPECT_EQ(steps.window(0, 2), 2);
  EXPECT_EQ(steps.window(3, 2), 1);
  EXPECT_EQ(run_steps(a, 8, 32).window(3, 2), 2);
  EXPECT_EQ(run_steps(a, 1, 3).window(0, 2), 1);
}

TEST(RunSteps, steps_beyond_64_bits_never_come) {
  EXPECT_EQ(config::update_count(1e20, 10), 9'000'000'000'000'000'000);
  EXPECT_EQ(config::update_count(7, 10), 7);
  EXPECT_EQ(config::update_count(0.25, 10), 3);
  EXPECT_EQ(config::update_count(0, 10), 0);
}

TEST(RunSteps, by_steps) {
  config::TrainingArguments a = arguments();
  a.max_steps = 9;
  const RunSteps steps = run_steps(a, 7, 26);
  EXPECT_EQ(steps.max_steps, 9);
  EXPECT_EQ(steps.num_train_epochs, 3);
  EXPECT_EQ(steps.num_train_samples, 72.0);
}

TEST(RunSteps, streaming_needs_max_steps) {
  config::TrainingArguments a = arguments();
  EXPECT_THROW(run_steps(a, -1, -1), Error);
  a.max_steps = 5;
  const RunSteps steps = run_steps(a, -1, -1);
  EXPECT_EQ(steps.max_steps, 5);
  EXPECT_EQ(steps.batches_per_epoch, 10);
  EXPECT_EQ(steps.window(4, 2), 2);
}

// 20 rows make two batches of 8, and 4 rows of an epoch are left over.
TEST(RunSteps, by_episodes) {
  config::TrainingArguments a = arguments();
  a.method = config::find_method("ppo");
  ASSERT_NE(a.method, nullptr);
  a.online.generation_batch_size = 8;
  a.online.repeat_count = 6;
  a.online.total_episodes = 33;
  const RunSteps steps = run_steps(a, 12, 20);
  EXPECT_EQ(steps.max_steps, 5);
  EXPECT_EQ(steps.updates_per_epoch, 2);
  EXPECT_EQ(steps.window(1, config::micro_batches_per_step(a)), 6);
  EXPECT_EQ(steps.num_train_samples, 40.0);
  EXPECT_EQ(steps.epochs(1, 0, 6), 0.4);
  EXPECT_EQ(steps.epochs(5, 2, 6), 2.0);
  a.online.total_episodes.reset();
  a.num_train_epochs = 2.5;
  EXPECT_EQ(run_steps(a, 12, 20).max_steps, 7);
  a.max_steps = 3;
  EXPECT_EQ(run_steps(a, 12, 20).max_steps, 3);
}

TEST(RunSteps, refuses_an_empty_epoch) {
  try {
    run_steps(arguments(), 0, 3);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.key(), "per_device_train_batch_size");
    EXPECT_NE(error.message().find("3 rows"), std::string::npos);
  }
}

TEST(RunSteps, intervals) {
  config::TrainingArguments a = arguments();
  a.max_steps = 33;
  EXPECT_EQ(run_steps(a, 7, 26).logging_steps, 10);
  EXPECT_EQ(run_steps(a, 7, 26).eval_steps, 500);  // TrainerState's default where no evaluation is asked for
  a.logging_steps = 0.1;
  EXPECT_EQ(run_steps(a, 7, 26).logging_steps, 4);
  a.eval_strategy = config::Strategy::steps;
  EXPECT_EQ(run_steps(a, 7, 26).eval_steps, 4);
  a.eval_steps = 0.5;
  EXPECT_EQ(run_steps(a, 7, 26).eval_steps, 17);
  a.eval_steps = 6;
  EXPECT_EQ(run_steps(a, 7, 26).eval_steps, 6);
}

// A run of some epochs with evaluations.
struct AheadCase {
  int64_t generations, repeats, accumulation, max_steps;  // of an epoch; micro-batches of each
  config::Strategy strategy = config::Strategy::steps;
  double delay = 0;
};

config::TrainingArguments ahead_arguments(const AheadCase& own) {
  config::TrainingArguments a;
  a.method = config::find_method("grpo");
  a.gradient_accumulation_steps = own.accumulation;
  a.max_steps = own.max_steps;
  a.eval_strategy = own.strategy;
  a.eval_steps = 3;
  a.eval_delay = own.delay;
  a.online.num_sample_generations = 0;
  return a;
}

// Goes through a run as Trainer does, and notes what it has made before each step.
struct RunWalk {
  std::vector<RunPlace> places;
  std::vector<engine::RolloutNeeds> made;  // one more: at the end

  RunWalk(const AheadCase& own, const config::TrainingArguments& a, const RunSteps& steps) {
    engine::RolloutNeeds all;
    int64_t epoch = 0, done = 0;
    for (int64_t step = 0; step < steps.max_steps; ++step) {
      if (done == steps.batches_per_epoch) ++epoch, done = 0;
      const int64_t begun = (done + own.repeats - 1) / own.repeats;
      places.push_back({step, epoch, done, begun, own.repeats, true});
      made.push_back(all);
      done = std::min(done + own.accumulation, steps.batches_per_epoch);
      all.generations += (done + own.repeats - 1) / own.repeats - begun;
      const int64_t now = step + 1;
      const bool end = now == steps.max_steps, whole = done == steps.batches_per_epoch;
      if (a.eval_strategy == config::Strategy::steps)
        all.evaluations += (now % steps.eval_steps == 0 || end) && a.eval_delay <= static_cast<double>(now);
      else
        all.evaluations += (whole || end) && a.eval_delay <= steps.epochs(now, epoch, done);
    }
    made.push_back(all);
  }
};

TEST(RunAhead, NeedsWhatTheRunMakes) {
  constexpr config::Strategy kEpoch = config::Strategy::epoch, kSteps = config::Strategy::steps;
  for (const AheadCase& own :
       {AheadCase{5, 4, 4, 12}, AheadCase{5, 4, 2, 30}, AheadCase{3, 2, 4, 11}, AheadCase{3, 2, 3, 11},
        AheadCase{1, 8, 3, 9, kEpoch}, AheadCase{4, 2, 3, 13, kEpoch}, AheadCase{4, 2, 3, 13, kEpoch, 1.5},
        AheadCase{5, 4, 4, 12, kSteps, 4}, AheadCase{2, 1, 1, 1}}) {
    const config::TrainingArguments a = ahead_arguments(own);
    const RunSteps steps = run_steps(a, own.generations * own.repeats, 8 * own.generations);
    const RunWalk walk(own, a, steps);
    for (size_t step = 0; step < walk.places.size(); ++step) {
      const engine::RolloutNeeds needs = RunAhead(a, steps, walk.places[step]).needs(steps.max_steps);
      EXPECT_EQ(needs.generations, walk.made.back().generations - walk.made[step].generations)
          << own.generations << ' ' << own.repeats << ' ' << own.accumulation << ", step " << step;
      EXPECT_EQ(needs.evaluations, walk.made.back().evaluations - walk.made[step].evaluations)
          << own.generations << ' ' << own.repeats << ' ' << own.accumulation << ", step " << step;
      EXPECT_EQ(needs.samples, 0);
    }
  }
}

// A generation is a step; samples follow steps 1, 4 and 7.
TEST(RunAhead, NeedsSamplesOfEpisodes) {
  config::TrainingArguments a;
  a.method = config::find_method("ppo");
  a.online.generation_batch_size = 8;
  a.online.repeat_count = 6;
  a.online.num_sample_generations = 3;
  a.max_steps = 9;
  const RunSteps steps = run_steps(a, 12, 20);
  const auto needs = [&](const RunPlace& place) { return RunAhead(a, steps, place).needs(9); };
  EXPECT_EQ(needs({0, 0, 0, 0, 6, true}).generations, 9);
  EXPECT_EQ(needs({0, 0, 0, 0, 6, true}).samples, 3);
  EXPECT_EQ(needs({3, 1, 6, 1, 6, true}).generations, 6);
  EXPECT_EQ(needs({3, 1, 6, 1, 6, true}).samples, 2);
  EXPECT_EQ(needs({4, 2, 0, 0, 6, true}).samples, 1);
  EXPECT_EQ(needs({0, 0, 0, 0, 6, false}).samples, 0);
  EXPECT_EQ(needs({0, 0, 0, 0, 6, true}).evaluations, 0);
}

}  // namespace
}  // namespace trl::train
