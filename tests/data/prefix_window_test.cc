// share_prefix_window: rows that begin alike come into one batch of their window, and every row comes once.
#include "data/batch/prefix_tree.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "data/batch/batch_stream.h"
#include "data/batch/preference_batches.h"
#include "preference_shop.h"
#include "support/letter_tokenizer.h"

namespace trl::data::prefix_window_test {
namespace {

// Rows of 20 + 4 tokens: those of one family, row % families, have the first 20 in common.
std::vector<int32_t> tokens_of(int64_t row, int64_t families) {
  std::vector<int32_t> tokens(20, static_cast<int32_t>(row % families));
  tokens.resize(24, static_cast<int32_t>(1000 + row));
  return tokens;
}

RowTokens families(int64_t count) {
  return [=](int64_t row) { return tokens_of(row, count); };
}

TEST(PrefixWindow, BringsRowsThatBeginAlikeTogether) {
  const RowBatches batches = {{0, 1, 2}, {3, 4, 5}, {6, 7, 8}};
  EXPECT_EQ(brought_together(batches, families(3)), (RowBatches{{0, 3, 6}, {1, 4, 7}, {2, 5, 8}}));
}

TEST(PrefixWindow, RowsThatAreAloneStayWhereThereIsRoom) {
  const RowBatches batches = {{0, 1}, {2, 3}, {4, 0}, {5}};
  EXPECT_EQ(brought_together(batches, families(100)), (RowBatches{{0, 0}, {2, 3}, {1, 4}, {5}}));
  EXPECT_EQ(brought_together({}, families(1)), RowBatches{});
}

// Few tokens in common do not change the order, nor do many that are a small part of a long row.
TEST(PrefixWindow, LittleInCommonMovesNothing) {
  const RowBatches batches = {{0, 1}, {2, 3}};
  const auto begun = [](size_t common, size_t length) {
    return [=](int64_t row) {
      std::vector<int32_t> tokens(common, static_cast<int32_t>(row % 2));
      tokens.resize(length, static_cast<int32_t>(1000 + row));
      return tokens;
    };
  };
  EXPECT_EQ(brought_together(batches, begun(15, 30)), batches);
  EXPECT_EQ(brought_together(batches, begun(16, 1000)), batches);
  EXPECT_EQ(brought_together(batches, begun(16, 30)), (RowBatches{{0, 2}, {1, 3}}));
}

// More rows than a batch: those with most in common are in one.
TEST(PrefixWindow, CutsLargeGroupsWhereLeastIsShared) {
  const RowBatches batches = {{0, 1}, {2, 3}};
  const auto tokens = [](int64_t row) {
    std::vector<int32_t> ids(20, 7);
    ids.resize(40, static_cast<int32_t>(row % 2));
    return ids;
  };
  EXPECT_EQ(brought_together(batches, tokens), (RowBatches{{0, 2}, {1, 3}}));
}

TEST(PrefixWindow, EveryRowComesOnceInItsWindow) {
  OrderOptions options;
  options.rows = 103;
  options.batch_size = 4;
  const EpochOrder order(options, 1);
  for (const int64_t kinds : {1, 5, 40}) {
    WindowedOrder windowed(order, 8);
    ASSERT_EQ(windowed.size(), order.size());
    for (int64_t begin = 0; begin < order.size(); begin += 8) {
      std::multiset<int64_t> want, got;
      for (int64_t i = begin; i < std::min(begin + 8, order.size()); ++i) {
        const std::vector<int64_t> rows = windowed.batch(i, families(kinds)), plain = order.batch(i);
        EXPECT_EQ(rows.size(), plain.size());
        got.insert(rows.begin(), rows.end());
        want.insert(plain.begin(), plain.end());
      }
      EXPECT_EQ(got, want);
    }
    // A run that resumes begins anywhere.
    WindowedOrder again(order, 8);
    EXPECT_EQ(again.batch(13, families(kinds)), windowed.batch(13, families(kinds)));
  }
}

TEST(PrefixWindow, StreamsTakeIt) {
  std::string rows;
  for (int64_t row = 0; row < 32; ++row)
    rows += fmt::format("{{\"input_ids\":[{}]}}\n", fmt::join(tokens_of(row, 8), ","));
  test::PreferenceShop shop(std::make_unique<test::LetterTokenizer>(""));
  shop.context.vocab_size = 2000;
  OrderOptions options;
  options.batch_size = 4;
  const auto batches = [&](int64_t window) {
    options.prefix_window = window;
    const auto stream = batches_in_order(prepare_sft(shop.table(rows), shop.context), options, {});
    stream->start_epoch(0);
    std::vector<std::set<int64_t>> out;
    for (Batch batch; stream->next(batch);) {
      std::set<int64_t>& kinds = out.emplace_back();
      for (const int64_t row : batch.row_ids) kinds.insert(row % 8);
    }
    return out;
  };
  for (const std::set<int64_t>& kinds : batches(8)) EXPECT_EQ(kinds.size(), 1u);
  size_t most = 0;
  for (const std::set<int64_t>& kinds : batches(0)) most = std::max(most, kinds.size());
  EXPECT_GT(most, 2u);
}

// The prompts of pairs, and of rows that have none what both sides begin with.
TEST(PrefixWindow, PairsTakeIt) {
  std::string rows;
  for (int row = 0; row < 8; ++row) {
    const std::string prompt(20, static_cast<char>('a' + row % 2));
    rows += fmt::format("{{\"prompt\":\"{}\",\"chosen\":\"x{}\",\"rejected\":\"y{}\"}}\n", prompt, row, row);
  }
  test::PreferenceShop shop(std::make_unique<test::LetterTokenizer>(""));
  OrderOptions options;
  options.batch_size = 4;
  options.sampling = Sampling::sequential;
  for (const auto prepare : {prepare_dpo, prepare_reward}) {
    for (const int64_t window : {int64_t{0}, int64_t{2}}) {
      options.prefix_window = window;
      const auto stream = batches_of_pairs(prepare(shop.table(rows), shop.context), options, {}, {});
      stream->start_epoch(0);
      Batch batch;
      ASSERT_TRUE(stream->next(batch));
      EXPECT_EQ(batch.row_ids,
                (window == 0 ? std::vector<int64_t>{0, 1, 2, 3} : std::vector<int64_t>{0, 2, 4, 6}));
    }
  }
}

}  // namespace
}  // namespace trl::data::prefix_window_test
