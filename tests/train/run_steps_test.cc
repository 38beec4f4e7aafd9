// Trainer's arithmetic of steps, epochs, and when to log and evaluate.
#include "train/run_steps.h"

#include <gtest/gtest.h>

#include "base/error.h"

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

}  // namespace
}  // namespace trl::train
