// The order of prompts against TRL's RepeatSampler.
#include "data/batch/repeat_order.h"

#include <gtest/gtest.h>

#include "support/golden.h"

namespace trl::data {
namespace {

std::vector<int64_t> rows_of(const RepeatOrder& order) {
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < order.size(); ++i) rows.push_back(order[i]);
  return rows;
}

TEST(RepeatOrder, Sequential) {
  TRL_NEED_GOLDEN("data/prepared/grpo_repeat_sampler.json");
  int run = 0;
  for (const base::Json& item : test::golden_json("data/prepared/grpo_repeat_sampler.json")["cases"]) {
    const RepeatOrder order({.rows = item["num_samples"],
                             .num_generations = item["mini_repeat_count"],
                             .prompts_per_generation_batch = item["batch_size"],
                             .repeat_count = item["repeat_count"],
                             .shuffle = false});
    EXPECT_EQ(rows_of(order), item["indices"].get<std::vector<int64_t>>());
    ++run;
  }
  EXPECT_EQ(run, 6);
}

TEST(RepeatOrder, ShuffledEpochs) {
  TRL_NEED_GOLDEN("order/cases.json");
  int run = 0;
  for (const base::Json& item : test::golden_json("order/cases.json")["repeat_sampler"]) {
    const RepeatOptions options{.rows = item["n"],
                                .num_generations = item["num_generations"],
                                .prompts_per_generation_batch = item["prompts_per_generation_batch"],
                                .repeat_count = item["repeat_count"],
                                .seed = item["seed"]};
    RepeatOrder order(options);
    const auto epochs = item["epochs"].get<std::vector<std::vector<int64_t>>>();
    for (size_t epoch = 0; epoch < epochs.size(); ++epoch) {
      order.start_epoch(static_cast<int64_t>(epoch));
      EXPECT_EQ(rows_of(order), epochs[epoch]);
      RepeatOrder resumed(options);
      resumed.start_epoch(static_cast<int64_t>(epoch));
      EXPECT_EQ(rows_of(resumed), epochs[epoch]);
    }
    order.start_epoch(0);
    EXPECT_EQ(rows_of(order), epochs[0]);
    ++run;
  }
  EXPECT_EQ(run, 3);
}

// Rows of a recorded run of PPOTrainer: 20 prompts, 8 in a batch.
TEST(RepeatOrder, ByTheLoader) {
  const RepeatOptions options{
      .rows = 20, .num_generations = 1, .prompts_per_generation_batch = 8, .by_loader = true, .seed = 42};
  const std::vector<std::vector<int64_t>> epochs = {{8, 14, 17, 19, 1, 15, 18, 9, 3, 11, 4, 0, 10, 7, 13, 16},
                                                    {14, 12, 13, 8, 15, 4, 7, 18, 9, 3, 0, 17, 2, 11, 19, 6},
                                                    {16, 14, 12, 4, 1, 8, 2, 0, 7, 17, 11, 5, 6, 9, 18, 3}};
  RepeatOrder order(options);
  for (size_t epoch = 0; epoch < epochs.size(); ++epoch) {
    order.start_epoch(static_cast<int64_t>(epoch));
    EXPECT_EQ(rows_of(order), epochs[epoch]);
    RepeatOrder resumed(options);
    resumed.start_epoch(static_cast<int64_t>(epoch));
    EXPECT_EQ(rows_of(resumed), epochs[epoch]);
  }
}

}  // namespace
}  // namespace trl::data
