// Entries of reward_funcs: names, arguments, and what is refused.
#include "reward/named_reward.h"

#include <gtest/gtest.h>

#include "reward/score_one.h"
#include "support/error_of.h"

namespace trl::reward {
namespace {

std::string refusal(std::string_view spec) {
  try {
    named_reward(spec);
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::invalid_config) << spec;
    EXPECT_EQ(error.key(), "reward_funcs") << spec;
    return error.message();
  }
  return "accepted";
}

TEST(NamedReward, NamesAlone) {
  EXPECT_EQ(named_reward("accuracy_reward")->name(), "accuracy_reward");
  EXPECT_EQ(named_reward(" think_format_reward ")->name(), "think_format_reward");
  EXPECT_EQ(named_reward("reasoning_accuracy_reward()")->name(), "reasoning_accuracy_reward");
  const std::vector<int32_t> ids(1152, 1);
  EXPECT_EQ(test::score_ids(*named_reward("get_soft_overlong_punishment"), ids), -0.5) << "1280, 256";
  EXPECT_EQ(test::score_ids(*named_reward("get_repetition_penalty_reward"), {1, 1, 1, 1}), -0.5) << "3, -1";
}

TEST(NamedReward, Arguments) {
  const auto soft =
      named_reward("get_soft_overlong_punishment( soft_punish_cache = 2 , max_completion_len=4, )");
  EXPECT_EQ(test::score_ids(*soft, {1, 2, 3}), -0.5);
  const auto repetition = named_reward("get_repetition_penalty_reward(ngram_size=1, max_penalty=-2e0)");
  EXPECT_EQ(test::score_ids(*repetition, {1, 1}), -1);
  const base::Json columns = {{"solution", "42"}};
  const auto reasoning = named_reward("reasoning_accuracy_reward(reasoning_delimiters=['<a>', \"\\n--\"])");
  EXPECT_EQ(test::score_text(*reasoning, "hm <a> \\boxed{42}", columns), 1);
  EXPECT_EQ(test::score_text(*reasoning, "hm\n--\\boxed{42}", columns), 1);
  EXPECT_EQ(test::score_text(*reasoning, "hm</think>\\boxed{42}", columns), 0);
  const auto preset = named_reward("reasoning_accuracy_reward(reasoning_delimiters=None)");
  EXPECT_EQ(test::score_text(*preset, "hm</think>\\boxed{42}", columns), 1);
  const auto cosine =
      named_reward("get_cosine_scaled_reward(max_len=10, max_value_correct=3, min_value_wrong=-7)");
  EXPECT_EQ(test::score_text(*cosine, "\\boxed{42}", columns), 3);
  EXPECT_EQ(test::score_text(*cosine, "\\boxed{41}", columns), -7);
}

TEST(NamedReward, RefusesOtherNames) {
  EXPECT_EQ(
      refusal("my_lib.rewards.custom"),
      "reward_funcs: 'my_lib.rewards.custom' is a path of Python, which is not run here; give one of "
      "accuracy_reward, get_cosine_scaled_reward, get_repetition_penalty_reward, "
      "get_soft_overlong_punishment, "
      "reasoning_accuracy_reward, think_format_reward; a program of your own is command:LINE for the trl "
      "command, and a host adds functions (trl_trainer_add_reward)");
  EXPECT_NE(refusal("acuracy_reward").find("is unknown; did you mean accuracy_reward?; give one of"),
            std::string::npos);
  EXPECT_NE(refusal("nothing_like_it(a=1)").find("'nothing_like_it(a=1)' is unknown; give one of"),
            std::string::npos);
  EXPECT_NE(refusal("").find("a name must come first"), std::string::npos);
  EXPECT_NE(refusal("Command:x").find("a program as command:LINE"), std::string::npos);
  EXPECT_NE(refusal("./score.sh").find("a program as command:LINE"), std::string::npos);
}

TEST(NamedReward, RefusesBadCalls) {
  EXPECT_EQ(refusal("get_cosine_scaled_reward"),
            "reward_funcs: 'get_cosine_scaled_reward': max_len is missing: give "
            "get_cosine_scaled_reward(max_len=100)");
  EXPECT_EQ(refusal("accuracy_reward(x=1)"),
            "reward_funcs: 'accuracy_reward(x=1)': accuracy_reward takes no arguments");
  EXPECT_NE(
      refusal("get_repetition_penalty_reward(n=3)").find("has no argument n; it has ngram_size, max_penalty"),
      std::string::npos);
  EXPECT_NE(refusal("get_repetition_penalty_reward(3)")
                .find("each argument needs its name: name=value (character 32)"),
            std::string::npos);
  EXPECT_NE(refusal("get_repetition_penalty_reward(ngram_size=0)").find("give an integer of at least 1"),
            std::string::npos);
  EXPECT_NE(refusal("get_repetition_penalty_reward(ngram_size=2.5)").find("ngram_size=2.5 is not accepted"),
            std::string::npos);
  EXPECT_NE(refusal("get_repetition_penalty_reward(max_penalty=1)").find("give a number of at most 0"),
            std::string::npos);
  EXPECT_NE(refusal("get_repetition_penalty_reward(max_penalty=nan)").find("give a finite number"),
            std::string::npos);
  EXPECT_NE(refusal("get_soft_overlong_punishment(max_completion_len=100)")
                .find("256 is above max_completion_len 100"),
            std::string::npos);
  EXPECT_NE(refusal("reasoning_accuracy_reward(reasoning_delimiters='x')").find("give a list of texts"),
            std::string::npos);
  EXPECT_NE(refusal("reasoning_accuracy_reward(reasoning_delimiters=[])").find("give a list of texts"),
            std::string::npos);
  EXPECT_NE(refusal("reasoning_accuracy_reward(reasoning_delimiters=['a', ''])").find("that are not empty"),
            std::string::npos);
  EXPECT_NE(refusal("get_cosine_scaled_reward(max_len=1, max_len=2)").find("max_len is given twice"),
            std::string::npos);
}

TEST(NamedReward, RefusesBrokenText) {
  for (const char* spec :
       {"accuracy_reward(", "accuracy_reward)", "accuracy_reward(a=", "accuracy_reward(a=1",
        "accuracy_reward(a=[1", "accuracy_reward(a='x)", "accuracy_reward(=1)", "accuracy_reward() x",
        "accuracy_reward(a=1 b=2)", "(a=1)", "accuracy_reward(a=[[[[[[[[[[1]]]]]]]]]])", "a b", "\xff\xfe"})
    EXPECT_NE(refusal(spec), "accepted") << spec;
}

}  // namespace
}  // namespace trl::reward
