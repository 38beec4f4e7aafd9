#include "config/training_arguments.h"

#include <gtest/gtest.h>

#include "config/settings.h"

namespace trl::config {
namespace {

SampleArguments samples_of(const Settings& settings) { return sample_arguments(config_with(settings)); }

TEST(SampleArguments, AreAListOrTheNameOfAFile) {
  EXPECT_FALSE(samples_of({}).asked);
  EXPECT_FALSE(samples_of({{"sample_prompts", "null"}}).asked);
  for (const char* name : {"my prompts.jsonl", "\"my prompts.jsonl\""}) {
    const SampleArguments file = samples_of({{"sample_prompts", name}});
    EXPECT_TRUE(file.asked);
    EXPECT_EQ(file.file, "my prompts.jsonl");
    EXPECT_TRUE(file.prompts.empty());
  }
  const SampleArguments list =
      samples_of({{"sample_prompts", R"(["one, two", 3, [{role: user, content: hi}], {text: a}])"},
                  {"sample_steps", "5"},
                  {"eval_strategy", "epoch"}});
  EXPECT_TRUE(list.file.empty());
  EXPECT_EQ(list.prompts,
            base::Json::parse(R"(["one, two", "3", [{"role": "user", "content": "hi"}], {"text": "a"}])"));
  EXPECT_EQ(list.steps, 5);
  EXPECT_TRUE(list.evaluates);
  EXPECT_EQ(list.max_new_tokens, 64);
}

// Without evaluations, samples come with checkpoints.
TEST(SampleArguments, KnowMethodsThatEvaluateNothing) {
  const Settings settings = {{"sample_prompts", "[a]"}, {"eval_strategy", "steps"}, {"method", "ppo"}};
  EXPECT_FALSE(samples_of(settings).evaluates);
}

TEST(SampleArguments, EndAfterTheirOwnNumberOfTokensIfItIsSet) {
  const auto tokens = [](Settings settings) {
    settings.emplace_back("sample_prompts", "[a]");
    return samples_of(settings).max_new_tokens;
  };
  EXPECT_EQ(tokens({}), 64);
  EXPECT_EQ(tokens({{"generate.max_new_tokens", "7"}}), 7);
  EXPECT_EQ(tokens({{"generate.generation_kwargs", "{max_tokens: 8}"}}), 8);
  EXPECT_EQ(tokens({{"generate.max_new_tokens", "7"}, {"sample_max_new_tokens", "9"}}), 9);
}

// The canonical text is what the engine and a recipe read again.
TEST(SampleArguments, AreTheSameWhenReadAgain) {
  for (const char* text : {"prompts.txt", R"(["one", [{role: user, content: "[a]"}]])"}) {
    Config once, twice;
    once.set("sample_prompts", text);
    twice.set("sample_prompts", once.get("sample_prompts"));
    EXPECT_EQ(twice.get("sample_prompts"), once.get("sample_prompts"));
  }
}

TEST(SampleArguments, AreRefusedByName) {
  const auto refusal = [](const Settings& settings) { return refusal_of([&] { samples_of(settings); }); };
  EXPECT_EQ(refusal({{"sample_prompts", "[]"}}),
            "sample_prompts: the list is empty: give at least one prompt, or null");
  EXPECT_EQ(refusal({{"sample_prompts", "{text: a}"}}),
            "sample_prompts: '{text: a}' is not accepted; give a list or the name of a file, or null");
  EXPECT_EQ(refusal({{"sample_prompts", "[a]"}, {"method", "reward"}}),
            "sample_prompts: a reward model scores text and cannot complete it: leave sample_prompts out");
  EXPECT_NE(refusal({{"sample_steps", "0"}}).find("sample_steps"), std::string::npos);
}

}  // namespace
}  // namespace trl::config
