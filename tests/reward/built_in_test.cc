// Edges of the built-in rewards that the recordings do not have.
#include "reward/built_in.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "reward/score_one.h"
#include "support/error_of.h"

namespace trl::reward {
namespace {

const base::Json kSolution42 = {{"solution", "42"}};

TEST(BuiltInRewards, NamesAreThoseOfTrlsMetrics) {
  EXPECT_EQ(think_format_reward()->name(), "think_format_reward");
  EXPECT_EQ(accuracy_reward()->name(), "accuracy_reward");
  EXPECT_EQ(reasoning_accuracy_reward({"</think>"})->name(), "reasoning_accuracy_reward");
  EXPECT_EQ(soft_overlong_punishment(10, 2)->name(), "soft_overlong_punishment_reward");
  EXPECT_EQ(repetition_penalty_reward(3, -1)->name(), "repetition_penalty_reward");
  EXPECT_EQ(cosine_scaled_reward({.max_len = 10})->name(), "cosine_scaled_reward");
}

TEST(BuiltInRewards, ReadTheFirstMessageOfAConversation) {
  const auto reward = accuracy_reward();
  const auto score = [&](const base::Json& messages) {
    const Completion completion{.text = "\\boxed{1}", .messages = &messages, .columns = &kSolution42};
    return reward->score({{&completion, 1}}).at(0);
  };
  EXPECT_EQ(score({{{"role", "assistant"}, {"content", "\\boxed{42}"}}}), 1);
  EXPECT_EQ(score({{{"role", "assistant"}, {"content", "\\boxed{41}"}},
                   {{"role", "assistant"}, {"content", "\\boxed{42}"}}}),
            0);
  EXPECT_EQ(score({{{"role", "assistant"}, {"content", nullptr}, {"tool_calls", base::Json::array()}}}), 0);
  EXPECT_EQ(score(base::Json::array()), 0);
}

TEST(BuiltInRewards, ScoreEachCompletionByItsRow) {
  const base::Json rows[] = {
      {{"solution", "1"}}, {{"solution", "none"}}, {{"solution", nullptr}}, {{"solution", "4"}}};
  std::vector<Completion> completions;
  for (const base::Json& row : rows) completions.push_back({.text = "\\boxed{1}", .columns = &row});
  const Rewards got = accuracy_reward()->score({completions});
  ASSERT_EQ(got.size(), 4U);
  EXPECT_EQ(got[0], 1);
  EXPECT_TRUE(std::isnan(got[1]));
  EXPECT_TRUE(std::isnan(got[2]));
  EXPECT_EQ(got[3], 0);
  EXPECT_TRUE(accuracy_reward()->score({}).empty());
}

TEST(BuiltInRewards, CountWhatCannotBeRead) {
  const auto reward = accuracy_reward();
  test::score_text(*reward, "\\boxed{42}", kSolution42);
  test::score_text(*reward, "no answer", kSolution42);
  EXPECT_EQ(reward->unread().solutions + reward->unread().completions, 0);
  test::score_text(*reward, "\\boxed{\\int x}", kSolution42);
  test::score_text(*reward, "\\boxed{42", {{"solution", "nothing"}});
  test::score_text(*reward, "\\boxed{1}", {{"solution", "$\\int x$"}});
  EXPECT_EQ(reward->unread().completions, 1);
  EXPECT_EQ(reward->unread().solutions, 2);
  EXPECT_EQ(test::score_text(*reward, "\\boxed{\\int x}", {{"solution", "$\\int x$"}}), 1) << "the same text";

  const auto cosine = cosine_scaled_reward({.max_len = 10});
  test::score_text(*cosine, "", {{"solution", "nothing"}});
  EXPECT_EQ(cosine->unread().solutions, 1);
}

TEST(BuiltInRewards, RefuseARowWithoutASolution) {
  const auto message = [](const base::Json& columns) {
    return test::error_of([&] { test::score_text(*accuracy_reward(), "", columns); });
  };
  EXPECT_EQ(
      message({{"answer", "42"}}),
      std::pair(Status::invalid_config,
                std::string("reward_funcs: accuracy_reward: dataset row 0 has no column solution, which "
                            "accuracy_reward compares with; its columns: answer")));
  EXPECT_EQ(message({{"solution", 42}}),
            std::pair(Status::invalid_config,
                      std::string("reward_funcs: accuracy_reward: the column solution of dataset "
                                  "row 0 is a number; it must be a string or null")));
  const Completion bare{.text = "\\boxed{42}"};
  EXPECT_EQ(test::error_of([&] {
              reasoning_accuracy_reward({"x"})->score({{&bare, 1}});
            }).first,
            Status::invalid_config);
}

TEST(BuiltInRewards, DelimitersOfReasoningAreTriedInOrder) {
  const auto reward = reasoning_accuracy_reward({"</think>", "<answer>"});
  EXPECT_EQ(test::score_text(*reward, "\\boxed{42}", kSolution42), 0) << "no delimiter";
  EXPECT_EQ(test::score_text(*reward, "\\boxed{41}<answer>\\boxed{42}", kSolution42), 1);
  EXPECT_EQ(test::score_text(*reward, "\\boxed{41}</think>\\boxed{42}", kSolution42), 1);
  EXPECT_EQ(test::score_text(*reward, "\\boxed{42}</think>\\boxed{41}", kSolution42), 0);
  EXPECT_EQ(test::score_text(*reward, "a</think>b</think>\\boxed{42}", kSolution42), 1);
  EXPECT_EQ(
      test::score_text(*reward, "</think>\\boxed{41}<answer>\\boxed{42}</think>\\boxed{43}", kSolution42), 0);
  EXPECT_EQ(test::score_text(*reward, "no delimiter", {{"solution", nullptr}}), 0);
  EXPECT_TRUE(std::isnan(test::score_text(*reward, "</think>\\boxed{1}", {{"solution", nullptr}})));
}

TEST(BuiltInRewards, ThinkFormatTakesAnyBytes) {
  const auto reward = think_format_reward();
  EXPECT_EQ(test::score_text(*reward, "<think>\xff\xfe</think>\xc3"), 1);
  EXPECT_EQ(test::score_text(*reward, std::string("<think>\0</think>", 16)), 1);
  EXPECT_EQ(test::score_text(*reward, ""), 0);
  EXPECT_EQ(test::score_text(*reward, "<think></think><think>"), 0);
}

TEST(BuiltInRewards, RepetitionsOfShortAndLongTexts) {
  const auto reward = repetition_penalty_reward(2, -1);
  EXPECT_EQ(test::score_ids(*reward, {}), 0);
  EXPECT_EQ(test::score_ids(*reward, {7}), 0);
  EXPECT_EQ(test::score_ids(*reward, {7, 7}), 0);
  EXPECT_EQ(test::score_ids(*reward, {1, 2, 3, 4}), 0);
  EXPECT_EQ(test::score_ids(*reward, {5, 5, 5, 5, 5}), -0.75);
  const std::vector<int32_t> same(4001, 9);
  EXPECT_DOUBLE_EQ(test::score_ids(*reward, same), -(1 - 1.0 / 4000));
  EXPECT_FALSE(std::signbit(test::score_ids(*repetition_penalty_reward(1, 0), {1, 2}))) << "0, not -0";
}

TEST(BuiltInRewards, CosineOfBoundsOfOnesOwn) {
  const auto reward = cosine_scaled_reward({10, -10, -5, 2, 4});
  const std::vector<int32_t> ids(10, 1);
  const auto score = [&](std::string_view text, size_t length) {
    const Completion completion{.text = text, .ids = std::span(ids).first(length), .columns = &kSolution42};
    return reward->score({{&completion, 1}}).at(0);
  };
  EXPECT_EQ(score("\\boxed{42}", 0), 4);
  EXPECT_EQ(score("\\boxed{42}", 10), 2);
  EXPECT_EQ(score("\\boxed{41}", 0), -10);
  EXPECT_EQ(score("\\boxed{41}", 10), -5);
  EXPECT_NEAR(score("\\boxed{42}", 5), 3, 1e-12);
}

}  // namespace
}  // namespace trl::reward
