// A rollout as a micro-batch, with padding, and as bytes.
#include "train/rollout/rollout.h"

#include <gtest/gtest.h>

#include "data/batch/prefix_tree.h"
#include "train/batches/micro_batch.h"

namespace trl::train::rollout_test {
namespace {

using Ids = std::vector<int32_t>;

// Two completions of [1 2] and one of [3], the longest of which has three tokens.
Rollout padded() {
  Rollout rollout;
  rollout.prompts = {{7, 7, 8}, {{1, 2}, {1, 2}, {3}}};
  rollout.completions = {{.ids = {4, 5, 6}}, {.ids = {4}}, {.ids = {}}};
  rollout.ended = {1, 0, 0};
  rollout.learned = {1, 1, 1};
  rollout.columns["rewards"] = {0.5F, -1, 2};
  rollout.pad = 9;
  rollout.token_columns.emplace(data::kPadding, TokenRows{{0, 0, 0}, {0, 1, 1}, {1, 1, 1}});
  return rollout;
}

constexpr int64_t kAll[] = {0, 1, 2};

TEST(Rollout, GoesOnWithPaddingUpToTheLongestCompletion) {
  const data::Batch batch = batch_of(padded(), kAll);
  EXPECT_EQ(batch.input_ids, (Ids{1, 2, 4, 5, 6, 1, 2, 4, 9, 9, 3, 9, 9, 9}));
  EXPECT_EQ(batch.labels, (Ids{-100, -100, 4, 5, 6, -100, -100, 4, 9, 9, -100, 9, 9, 9}));
  EXPECT_EQ(batch.position_ids, (Ids{0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1, 2, 3}));
  EXPECT_EQ(batch.cu_seqlens, (Ids{0, 5, 10, 14}));
  EXPECT_EQ(batch.columns.at("rewards"), (std::vector<float>{0.5F, -1, 2}));
  EXPECT_EQ(batch.non_padding_tokens, 9);
  EXPECT_EQ(batch.width, 5);
  EXPECT_EQ(copy_batch(batch, 10).segments->padding, (Ids{0, 2, 3}));
}

TEST(Rollout, KeepsItsPaddingInTrees) {
  const auto shared = data::shared_beginnings(batch_of(padded(), kAll), {});
  ASSERT_TRUE(shared);
  EXPECT_EQ(shared->input_ids, (Ids{1, 2, 4, 5, 6, 9, 9, 3, 9, 9, 9}));
  const MicroBatch batch = copy_batch(*shared, 10);
  EXPECT_EQ(batch.segments->prefix, (Ids{-1, 0, 0, -1}));
  EXPECT_EQ(batch.segments->padding, (Ids{0, 0, 2, 3}));
  const auto parts = parts_of(batch, 7);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].segments->padding, (Ids{0, 0, 2}));
  EXPECT_EQ(parts[1].segments->padding, (Ids{3}));
}

TEST(Rollout, WithoutPaddingEndsWithItsCompletions) {
  Rollout rollout = padded();
  rollout.pad.reset();
  rollout.token_columns.clear();
  const data::Batch batch = batch_of(rollout, kAll);
  EXPECT_EQ(batch.input_ids, (Ids{1, 2, 4, 5, 6, 1, 2, 4, 3}));
  EXPECT_TRUE(copy_batch(batch, 10).segments->padding.empty());
}

TEST(Rollout, AsBytesIsTheSame) {
  const std::string bytes = bytes_of(padded());
  const Rollout again = rollout_of(bytes);
  EXPECT_EQ(bytes_of(again), bytes);
  EXPECT_EQ(batch_of(again, kAll).input_ids, batch_of(padded(), kAll).input_ids);
  EXPECT_EQ(again.columns, padded().columns);
  EXPECT_EQ(again.pad, 9);
}

}  // namespace
}  // namespace trl::train::rollout_test
