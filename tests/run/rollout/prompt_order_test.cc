// The rows of each generation.
#include "run/rollout/prompt_order.h"

#include <gtest/gtest.h>

namespace trl::run {
namespace {

using Rows = std::vector<int64_t>;

data::OrderOptions in_twos() {
  data::OrderOptions order;
  order.batch_size = 2;
  order.sampling = data::Sampling::sequential;
  return order;
}

TEST(SampledPrompts, AreAllCompletedOnceAndThenOnceMore) {
  const auto order = sampled_prompts(in_twos(), 2);
  order->set_rows(5);
  EXPECT_EQ(order->generations(), 3);
  order->start_epoch(0);
  EXPECT_EQ(order->generation(0), (Rows{0, 1, 0, 1}));
  EXPECT_EQ(order->generation(2), (Rows{4, 4}));  // the last one has fewer
  EXPECT_EQ(order->generation(3), Rows{});
  EXPECT_EQ(order->completions(0), 0);
  EXPECT_EQ(order->completions(2), 8);
  EXPECT_EQ(order->completions(3), 10);
}

TEST(SampledPrompts, FollowTheSampler) {
  data::OrderOptions options = in_twos();
  options.sampling = data::Sampling::random;
  options.drop_last = true;
  const auto order = sampled_prompts(options, 2);
  order->set_rows(5);
  EXPECT_EQ(order->generations(), 2);
  options.rows = 5;
  for (const int64_t epoch : {0, 1, 0}) {
    order->start_epoch(epoch);
    const data::EpochOrder wanted(options, epoch);
    for (int64_t i = 0; i < 2; ++i) {
      Rows rows = wanted.batch(i);
      rows.insert(rows.end(), {rows[0], rows[1]});
      EXPECT_EQ(order->generation(i), rows);
    }
  }
}

TEST(RepeatedPrompts, HaveTheirCompletionsTogether) {
  data::RepeatOptions options;
  options.num_generations = 2;
  options.prompts_per_generation_batch = 2;
  options.repeat_count = 3;
  options.shuffle = false;
  const auto order = repeated_prompts(options, 4);
  order->set_rows(5);
  EXPECT_EQ(order->generations(), 2);
  order->start_epoch(0);
  EXPECT_EQ(order->generation(1), (Rows{2, 2, 3, 3}));
  EXPECT_EQ(order->completions(1), 4);
  EXPECT_EQ(order->completions(2), 8);
  EXPECT_EQ(order->generation(2), Rows{});
}

TEST(RepeatedPrompts, LeaveOutABatchThatIsNotFull) {
  data::RepeatOptions options;
  options.num_generations = 2;
  options.shuffle = false;
  const auto all = repeated_prompts(options, 4), full = repeated_prompts(options, 4, true);
  for (PromptOrder* const order : {all.get(), full.get()}) {
    order->set_rows(5);
    order->start_epoch(0);
  }
  EXPECT_EQ(all->generations(), 3);
  EXPECT_EQ(all->generation(2), (Rows{4, 4}));
  EXPECT_EQ(all->completions(3), 10);
  EXPECT_EQ(full->generations(), 2);
  EXPECT_EQ(full->generation(1), (Rows{2, 2, 3, 3}));
  EXPECT_EQ(full->generation(2), Rows{});
  EXPECT_EQ(full->completions(2), 8);
}

}  // namespace
}  // namespace trl::run
