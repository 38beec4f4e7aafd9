// Rows of PPO: what counts of a padded completion, and its layout.
#include "train/rollout/padded_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/error.h"

namespace trl::train::padded_rows_test {
namespace {

using Ids = std::vector<int32_t>;
using Floats = std::vector<float>;

constexpr int32_t kPad = 9, kStop = 8;

Rollout rollout(const std::vector<std::pair<Ids, Ids>>& rows) {
  Rollout out;
  for (const auto& [prompt, ids] : rows) {
    out.prompts.row_ids.push_back(std::ssize(out.prompts.row_ids));
    out.prompts.ids.push_back(prompt);
    out.completions.push_back({ids});
  }
  return out;
}

data::Batch batch_of(const PaddedRows& padded, const Rollout& from) {
  std::vector<int64_t> rows(from.completions.size());
  std::iota(rows.begin(), rows.end(), 0);
  return padded.batch_of(from, rows);
}

// The tokens that have a value.
Ids states_of(const data::Batch& batch) {
  Ids out;
  const Floats& returns = batch.states.at(kReturn);
  for (size_t i = 0; i < returns.size(); ++i)
    if (!std::isnan(returns[i])) out.push_back(static_cast<int32_t>(i));
  return out;
}

TEST(PaddedRows, CountsUpToTheStopTokenOrThePadding) {
  const PaddedRows stops(kPad, kStop, true), goes_on(kPad, std::nullopt, true), same(kPad, kPad, true);
  EXPECT_EQ(stops.tokens({1, 2, 8, 3}), 3U);
  EXPECT_EQ(goes_on.tokens({1, 2, 8, 3}), 4U);
  EXPECT_EQ(stops.tokens({1, 9, 8, 3}), 1U);
  EXPECT_EQ(stops.tokens({9, 9}), 0U);
  EXPECT_EQ(same.tokens({1, 9, 2}), 1U);  // the stop token is the padding, and does not count
  EXPECT_EQ(stops.states({1, 2, 8, 3}), 4U);
  EXPECT_EQ(stops.states({1, 2, 3, 8}), 4U);  // no token after the last
}

TEST(PaddedRows, FindsATokenAsTrlDoes) {
  const PaddedRows stops(kPad, kStop, true), goes_on(kPad, std::nullopt, true);
  EXPECT_TRUE(stops.contains({1, 8, 7}, 8));
  EXPECT_FALSE(stops.contains({1, 8, 7}, 7));  // cut away
  EXPECT_TRUE(stops.contains({1, 8, 7}, kPad));
  EXPECT_FALSE(stops.contains({1, 8}, kPad));
  EXPECT_TRUE(goes_on.contains({1, 9, 7}, 7));
  EXPECT_FALSE(goes_on.contains({1, 2}, 7));
}

TEST(PaddedRows, PadsToTheLongest) {
  Rollout own = rollout({{{1}, {2, 3}}, {{1}, {}}});
  own.completions[0].log_probabilities = {-1, -2};
  const PaddedRows padded(kPad, std::nullopt, true);
  padded.pad(own);
  EXPECT_EQ(own.completions[0].ids, (Ids{2, 3}));
  EXPECT_EQ(own.completions[1].ids, (Ids{9, 9}));
  Rollout empty = rollout({{{1}, {}}});
  EXPECT_THROW(padded.pad(empty), Error);
  Rollout tools = rollout({{{1}, {2}}});
  tools.completions[0].written = {0};
  EXPECT_THROW(padded.pad(tools), Error);
}

TEST(PaddedRows, PaddingHasADistributionThatNoTokenSees) {
  const PaddedRows padded(kPad, kStop, true);
  Rollout own = rollout({{{9, 1, 2}, {3, 8, 9, 9}}, {{4}, {5, 6, 7, 3}}});
  own.token_columns["old"] = {{-1, -2, 0, 0}, {-3, -4, -5, -6}};
  own.token_columns[kValue] = {{1, 2, 3, 0}, {4, 5, 6, 7}};
  own.token_columns[kReturn] = {{11, 12, 13, 0}, {14, 15, 16, 17}};
  const data::Batch batch = batch_of(padded, own);
  EXPECT_EQ(batch.input_ids, (Ids{1, 2, 3, 8, 0, 4, 5, 6, 7, 3}));
  EXPECT_EQ(batch.position_ids, (Ids{0, 1, 2, 3, 4, 0, 1, 2, 3, 4}));
  EXPECT_EQ(batch.labels, (Ids{-100, -100, 3, 8, -100, -100, 5, 6, 7, 3}));
  EXPECT_EQ(batch.cu_seqlens, (Ids{0, 4, 5, 10}));
  EXPECT_EQ(batch.parents, (Ids{-1, 0, -1}));
  EXPECT_EQ(batch.token_columns.at("padding"), (Floats{0, 0, 0, 0, 1, 0, 0, 0, 0, 0}));
  EXPECT_EQ(batch.sequences, (Ids{0, 2}));
  EXPECT_EQ(batch.token_columns.at("old"), (Floats{0, 0, -1, -2, 0, 0, -3, -4, -5, -6}));
  // four positions of each row: the first padding token predicts the second
  EXPECT_EQ(batch.states.at(kEntropyCount), (Floats{0, 1, 1, 1, 1, 1, 1, 1, 1, 0}));
  EXPECT_EQ(states_of(batch), (Ids{1, 2, 3, 5, 6, 7, 8}));
  EXPECT_EQ(batch.states.at(kReturn)[3], 13);
  EXPECT_EQ(batch.states.at(kValue)[8], 7);
  EXPECT_EQ(batch.columns.at(kWidth), (Floats{4, 4}));
}

TEST(PaddedRows, PaddingBetweenTokensIsLeftOut) {
  const Rollout own = rollout({{{1}, {3, 9, 9, 4, 9, 9}}});
  const data::Batch batch = batch_of({kPad, std::nullopt, true}, own);
  EXPECT_EQ(batch.input_ids, (Ids{1, 3, 0, 4, 0}));
  EXPECT_EQ(batch.position_ids, (Ids{0, 1, 2, 2, 3}));
  EXPECT_EQ(batch.labels, (Ids{-100, 3, -100, -100, -100}));
  EXPECT_EQ(batch.parents, (Ids{-1, 0, 0, 2}));
  EXPECT_EQ(batch.token_columns.at("padding"), (Floats{0, 0, 1, 0, 1}));
  EXPECT_EQ(batch.sequences, (Ids{2}));
  EXPECT_EQ(batch.states.at(kEntropyCount), (Floats{1, 1, 2, 1, 1}));
  EXPECT_EQ(states_of(batch), (Ids{0, 1}));
}

TEST(PaddedRows, WithoutProbesRowsAreDocuments) {
  const Rollout own = rollout({{{1}, {3, 9, 9}}, {{1}, {3, 4, 5}}});
  for (const bool probes : {false, true}) {
    const data::Batch batch = batch_of({kPad, std::nullopt, probes}, own);
    EXPECT_EQ(batch.parents.empty(), !probes);
    EXPECT_EQ(batch.sequences.empty(), !probes);
    EXPECT_EQ(batch.tokens(), probes ? 7 : 6);
    EXPECT_EQ(batch.non_padding_tokens, 6);
  }
}

}  // namespace
}  // namespace trl::train::padded_rows_test
