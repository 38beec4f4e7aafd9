// What a run will save is compared with what is free, before its first step.
#include "train/saving/disk_needs.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/warnings.h"

namespace trl::train {
namespace {

int64_t ahead(config::Strategy strategy, std::optional<int64_t> limit, int64_t done = 0,
              const char* best = "") {
  config::TrainingArguments arguments;
  arguments.metric_for_best_model = best;
  arguments.save_strategy = strategy;
  arguments.save_total_limit = limit;
  RunSteps steps;
  steps.max_steps = 25;
  steps.save_steps = 10;
  steps.updates_per_epoch = 5;
  return checkpoints_ahead(arguments, steps, done);
}

TEST(DiskRoom, CountsTheCheckpointsThatAreThereAtOnce) {
  using config::Strategy;
  EXPECT_EQ(ahead(Strategy::no, {}), 0);
  EXPECT_EQ(ahead(Strategy::steps, {}), 3);  // 10, 20 and the last step
  EXPECT_EQ(ahead(Strategy::steps, {}, 10), 2);
  EXPECT_EQ(ahead(Strategy::steps, {}, 25), 0);
  EXPECT_EQ(ahead(Strategy::steps, 1), 2);  // the new one before the old one goes
  EXPECT_EQ(ahead(Strategy::steps, 1, 10), 1);
  EXPECT_EQ(ahead(Strategy::steps, 9), 3);
  EXPECT_EQ(ahead(Strategy::steps, 9, 10), 2);              // the limit is not reached
  EXPECT_EQ(ahead(Strategy::steps, 1, 0, "eval_loss"), 3);  // the best, the newest and the new one
  EXPECT_EQ(ahead(Strategy::steps, 1, 10, "eval_loss"), 2);
  EXPECT_EQ(ahead(Strategy::epoch, {}), 5);
  EXPECT_EQ(ahead(Strategy::best, {}), 1);
}

constexpr int64_t kTooMuch = int64_t{1} << 55;

std::string refused(const config::TrainingArguments& arguments, const DiskNeeds& needs,
                    const std::string& key) {
  EXPECT_FALSE(has_room(arguments, needs));
  try {
    need_room(arguments, needs);
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::io);
    EXPECT_EQ(error.key(), key);
    return error.message();
  }
  ADD_FAILURE() << "there is no such disk";
  return {};
}

TEST(DiskRoom, RefusesWhatDoesNotFit) {
  config::TrainingArguments arguments;
  arguments.output_dir = "/no_such_folder/below";
  EXPECT_GT(free_on_disk(arguments.output_dir), 0);
  EXPECT_NO_THROW(need_room(arguments, {.checkpoints = 2, .checkpoint_bytes = 1000, .model_bytes = 1000}));
  EXPECT_NO_THROW(need_room(arguments, {.checkpoints = 0, .checkpoint_bytes = kTooMuch}));
  const std::string both =
      refused(arguments, {.checkpoints = 2, .checkpoint_bytes = kTooMuch, .model_bytes = 7}, "output_dir");
  EXPECT_NE(both.find("2 checkpoints of 36 PB and a model of 7 B need 72.1 PB, "), std::string::npos) << both;
  EXPECT_NE(both.find("save_total_limit"), std::string::npos) << both;
  // With save_strategy no too there is a model at the end.
  const std::string model = refused(arguments, {.model_bytes = kTooMuch}, "output_dir");
  EXPECT_NE(model.find("a model of 36 PB need"), std::string::npos) << model;
  EXPECT_EQ(model.find("save_total_limit"), std::string::npos) << model;
}

TEST(DiskRoom, CountsWhatLeavesMemory) {
  config::TrainingArguments arguments;
  arguments.output_dir = "/no_such_folder/below";
  arguments.optim_directory = "/";
  const int64_t half = free_on_disk("/") / 2 + 1;
  EXPECT_NO_THROW(need_room(arguments, {.model_bytes = half}));
  EXPECT_NO_THROW(need_room(arguments, {.state_bytes = half}));
  const std::string together =
      refused(arguments, {.model_bytes = half, .state_bytes = 1, .activation_bytes = half}, "output_dir");
  EXPECT_NE(together.find("1 B of the optimizer's states and"), std::string::npos) << together;
  EXPECT_NE(together.find("or in offload_dir"), std::string::npos) << together;
  if (free_on_disk("/proc") != 0) GTEST_SKIP() << "/proc is not a full disk";
  arguments.optim_directory = "/proc";
  const std::string away = refused(arguments, {.model_bytes = 1, .activation_bytes = 5}, "offload_dir");
  EXPECT_TRUE(away.starts_with(
      "offload_dir: /proc: 5 B of activations that leave memory need 5 B, and the disk has 0 B "
      "free: "))
      << away;
}

// Nobody knows before how small they become.
TEST(DiskRoom, WarnsOfActivationsThatAreCompressed) {
  config::TrainingArguments arguments;
  arguments.output_dir = "/no_such_folder/below";
  arguments.offload.emplace().zstd = true;
  arguments.offload->directory = "/";
  test::Warnings log;
  need_room(arguments, {.model_bytes = 7, .activation_bytes = 5}, &log);
  EXPECT_TRUE(log.lines.empty());
  need_room(arguments, {.model_bytes = 7, .activation_bytes = kTooMuch}, &log);
  ASSERT_EQ(log.lines.size(), 1u);
  EXPECT_TRUE(
      log.lines[0].starts_with("offload_dir: /: up to 36 PB of activations leave "
                               "memory before they are compressed, and the disk has "))
      << log.lines[0];
  const DiskNeeds both = {.model_bytes = kTooMuch, .activation_bytes = kTooMuch};
  EXPECT_THROW(need_room(arguments, both, &log), Error);
  arguments.offload->zstd = false;
  EXPECT_THROW(need_room(arguments, {.activation_bytes = kTooMuch}, &log), Error);
  EXPECT_EQ(log.lines.size(), 1u);
}

}  // namespace
}  // namespace trl::train
