// A trainer's own keys as options of generation.
#include "config/generation/trainer_generation.h"

#include <gtest/gtest.h>

#include "config/generation/generation_kwargs.h"
#include "config/settings.h"

namespace trl::config {
namespace {

constexpr auto kTraining = Completions::of_training, kEvaluation = Completions::of_evaluation;

// name=value of the options of the group generate that are not at their defaults
std::string changed(std::string_view trainer, const Settings& settings, Completions which = kTraining) {
  const Config out = trainer_generation(config_of(trainer, settings), which);
  std::string text;
  for (const Option& option : options()) {
    if (!option.name.starts_with("generate.") || out.get(option.name) == option.default_value) continue;
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", option.name.substr(9), out.get(option.name));
  }
  return text;
}

TEST(TrainerGeneration, EachTrainerHasItsDefaults) {
  EXPECT_EQ(changed("grpo", {}), "max_new_tokens=512 temperature=1 num_return_sequences=8");
  EXPECT_EQ(changed("rloo", {}), "max_new_tokens=512 temperature=1 num_return_sequences=2");
  EXPECT_EQ(changed("gkd", {}), "max_new_tokens=128 temperature=0.9");
  EXPECT_EQ(changed("distillation", {}), "max_new_tokens=512 temperature=1");
  EXPECT_EQ(changed("online_dpo", {}), "max_new_tokens=64 temperature=0.9 num_return_sequences=2");
  EXPECT_EQ(changed("ppo", {}), "max_new_tokens=53 temperature=0.7000000999999999 ignore_eos=true");
}

TEST(TrainerGeneration, TakesTheTrainersKeys) {
  EXPECT_EQ(changed("grpo", {{"temperature", "0.5"},
                             {"top_p", "0.9"},
                             {"top_k", "20"},
                             {"min_p", "0.1"},
                             {"repetition_penalty", "1.2"},
                             {"num_generations", "4"},
                             {"seed", "7"},
                             {"max_completion_length", "32"}}),
            "max_new_tokens=32 temperature=0.5 top_p=0.9 top_k=20 min_p=0.1 repetition_penalty=1.2 seed=7 "
            "num_return_sequences=4");
  EXPECT_EQ(changed("rloo", {{"use_vllm", "true"}}),
            "max_new_tokens=512 temperature=1 sampling_order=vllm num_return_sequences=2");
  EXPECT_EQ(changed("ppo", {{"temperature", "0"}, {"stop_token_id", "5"}}),
            R"(max_new_tokens=53 temperature=1e-07 stop_token_ids=["5"] ignore_eos=true)");
}

TEST(TrainerGeneration, GenerationKwargsOverrideThem) {
  EXPECT_EQ(changed("grpo", {{"temperature", "0.5"},
                             {"top_k", "20"},
                             {"generation_kwargs",
                              "{temperature: 0.8, top_k: -1, stop: ['a b'], n: 8, min_tokens: 3}"}}),
            R"(max_new_tokens=512 min_new_tokens=3 temperature=0.8 stop=["a b"] num_return_sequences=8)");
  EXPECT_EQ(changed("gkd", {{"generation_kwargs", "{do_sample: false, top_p: 0.5}"}}),
            "max_new_tokens=128 top_p=0.5");
  const auto refusal = [](std::string_view trainer, std::string_view kwargs) {
    return refusal_of([&] { changed(trainer, {{"generation_kwargs", kwargs}}); });
  };
  EXPECT_EQ(refusal("grpo", "{n: 4}"),
            "generation_kwargs: n: '4' is refused: num_generations is the number of completions; give 8");
  EXPECT_EQ(refusal("gkd", "{num_return_sequences: 4}"),
            "generation_kwargs: num_return_sequences: '4' is refused: the trainer determines the number of "
            "completions; "
            "give 1");
  EXPECT_EQ(refusal("ppo", "{num_beams: 4}"),
            "generation_kwargs: num_beams: '4' is refused: this build does not search with beams; give 1");
  EXPECT_EQ(refusal("rloo", "{top_p: 0}"),
            "generation_kwargs: top_p: '0' is not accepted; give a number in (0, 1]");
  EXPECT_TRUE(
      refusal("rloo", "{top_q: 1}").starts_with("generation_kwargs: 'top_q' is not an entry of this build"));
}

TEST(TrainerGeneration, OptionsOfSamplesDoNotCount) {
  EXPECT_EQ(changed("grpo", {{"generate.temperature", "0.1"},
                             {"generate.stop", "[x]"},
                             {"generate.generation_kwargs", "{top_k: 3}"},
                             {"sample_prompts", "[Who]"}}),
            changed("grpo", {}));
}

TEST(TrainerGeneration, EvaluationHasItsOwn) {
  const Settings all = {{"temperature", "0.5"}, {"top_p", "0.9"}, {"generation_kwargs", "{min_tokens: 2}"}};
  EXPECT_EQ(changed("grpo", all, kEvaluation), changed("grpo", all));
  Settings own = all;
  own.insert(
      own.end(),
      {{"num_generations_eval", "1"}, {"eval_temperature", "0"}, {"eval_top_p", "1"}, {"eval_top_k", "3"}});
  EXPECT_EQ(changed("grpo", own, kEvaluation), "max_new_tokens=512 min_new_tokens=2 top_k=3");
  EXPECT_EQ(changed("grpo", own, kTraining), changed("grpo", all));
  EXPECT_EQ(changed("distillation", {{"eval_temperature", "0"}}, kEvaluation), "max_new_tokens=512");
  EXPECT_EQ(refusal_of([] {
              changed("rloo", {{"eval_temperature", "0"}}, kEvaluation);
            }),
            "eval_temperature: 0 makes the 2 completions of each prompt of an evaluation equal: give "
            "num_generations_eval 1, or a number above 0");
  EXPECT_NO_THROW(changed("rloo", {{"eval_temperature", "0"}}));
  EXPECT_EQ(changed("ppo", {}, kEvaluation), "max_new_tokens=53 temperature=0.0100001 ignore_eos=true");
}

TEST(TrainerGeneration, KeysOfTrainersAreNotThoseOfGeneration) {
  EXPECT_EQ(refusal_of([] {
              with_generation_kwargs(config_with({{"temperature", "0.5"}}));
            }),
            "temperature: it has no effect on generation; the key for it is generate.temperature");
  EXPECT_EQ(refusal_of([] {
              Config config;
              config.load_text("seed: 3\ntemperature: 0.5\ntop_k: 5\n", "g.yaml");
              with_generation_kwargs(config);
            }),
            "g.yaml:2: temperature: it has no effect on generation; the key for it is generate.temperature; "
            "g.yaml:3: top_k: it has no effect on generation; the key for it is generate.top_k");
  EXPECT_NO_THROW(with_generation_kwargs(config_of("grpo", {{"temperature", "0.5"}})));
  EXPECT_NO_THROW(with_generation_kwargs(config_with({{"seed", "5"}, {"learning_rate", "1"}})));
}

}  // namespace
}  // namespace trl::config
