// GKD: whose completions a micro-batch has, and how long rows may become.
#include <gtest/gtest.h>

#include "data/preference_shop.h"
#include "run/rollout/answer_choice.h"
#include "run/rollout/prompt_stream.h"
#include "support/letter_tokenizer.h"

namespace trl::run {
namespace {

config::OnlineArguments mixed(double lmbda, bool seq_kd) {
  config::OnlineArguments arguments;
  arguments.lmbda = lmbda;
  arguments.seq_kd = seq_kd;
  return arguments;
}

// random.seed(42) draws 0.639, 0.025, 0.275, 0.223, 0.736.
TEST(AnswerChoice, FollowsPythonsNumbers) {
  using enum AnswersOf;
  const std::vector<AnswersOf> wanted = {rows, model, model, model, rows};
  AnswerChoice choice(mixed(0.5, false), 42);
  for (const AnswersOf want : wanted) EXPECT_EQ(choice.next(), want);
  EXPECT_EQ(choice.made(), 5);
  AnswerChoice resumed(mixed(0.5, true), 42);
  resumed.go_to(4);
  EXPECT_EQ(resumed.next(), teacher);
  EXPECT_EQ(AnswerChoice(mixed(1, true), 42).next(), model);
  EXPECT_EQ(AnswerChoice(mixed(0, true), 42).next(), teacher);
}

// A row is as long as the longer of the completions that it may have.
TEST(PromptStream, CountsTheAnswersOfRows) {
  test::PreferenceShop shop(std::make_unique<test::LetterTokenizer>(
      "{% for m in messages %}{{ m['content'] }}{{ eos_token }}{% endfor %}"));
  const auto prompts = [&] {
    return std::make_shared<Prompts>(
        data::prepare_conversations(
            shop.table(
                R"({"messages":[{"role":"user","content":"ab"},{"role":"assistant","content":"cdefg"}]})"),
            shop.context),
        sampled_prompts({}, 1), nullptr);
  };
  EXPECT_EQ(PromptStream(prompts(), 2, {}, 1).longest_row(), 3 + 6);
  EXPECT_EQ(PromptStream(prompts(), 8, {}, 1).longest_row(), 3 + 8);
  PromptStream stream(prompts(), 2, {}, 1);
  EXPECT_FALSE(stream.longer_than(9));
  EXPECT_EQ(stream.longer_than(8)->tokens, 9);
}

}  // namespace
}  // namespace trl::run
