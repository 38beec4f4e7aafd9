// A trainer's keys as a request to the generator.
#include "run/complete/request_options.h"

#include <gtest/gtest.h>

#include "config/settings.h"
#include "data/tokenizer/open_tokenizer.h"
#include "support/recorded.h"

namespace trl::run {
namespace {

using config::Completions;

RequestOptions request(std::string_view trainer, const config::Settings& settings,
                       Completions which = Completions::of_training) {
  const Tokenizer tokenizer(data::open_tokenizer(test::golden_path("models/qwen2")));
  return trainer_request(config::config_of(trainer, settings), tokenizer, which);
}

TEST(TrainerRequest, HasTheTrainersSampling) {
  TRL_NEED_GOLDEN("models/qwen2/tokenizer.json");
  const RequestOptions made = request("grpo", {{"temperature", "0.5"},
                                               {"top_p", "0.9"},
                                               {"top_k", "20"},
                                               {"min_p", "0.1"},
                                               {"repetition_penalty", "1.2"},
                                               {"use_vllm", "true"},
                                               {"seed", "7"},
                                               {"generation_kwargs", "{min_tokens: 2, stop: [end]}"},
                                               {"generate.typical_p", "0.5"}});
  EXPECT_EQ(made.sampling.max_new_tokens, 512);
  EXPECT_EQ(made.sampling.min_new_tokens, 2);
  EXPECT_EQ(made.sampling.temperature, 0.5);
  EXPECT_EQ(made.sampling.top_p, 0.9);
  EXPECT_EQ(made.sampling.top_k, 20);
  EXPECT_EQ(made.sampling.min_p, 0.1);
  EXPECT_EQ(made.sampling.repetition_penalty, 1.2);
  EXPECT_EQ(made.sampling.typical_p, 1);
  EXPECT_EQ(made.sampling.order, engine::SamplingOrder::vllm);
  EXPECT_EQ(made.sampling.seed, 7u);
  EXPECT_TRUE(made.sampling.log_probabilities);
  EXPECT_EQ(made.stops, std::vector<std::string>{"end"});
  EXPECT_TRUE(made.own_ends);
  EXPECT_EQ(made.count, 8);
}

TEST(TrainerRequest, EvaluationHasItsOwn) {
  TRL_NEED_GOLDEN("models/qwen2/tokenizer.json");
  const RequestOptions made =
      request("grpo", {{"num_generations_eval", "1"}, {"eval_temperature", "0"}}, Completions::of_evaluation);
  EXPECT_EQ(made.sampling.temperature, 0);
  EXPECT_FALSE(made.sampling.log_probabilities);
  EXPECT_EQ(made.count, 1);
  EXPECT_EQ(request("online_dpo", {}).count, 2);
}

TEST(TrainerRequest, AResponseEndsAtItsStopTokenAlone) {
  TRL_NEED_GOLDEN("models/qwen2/tokenizer.json");
  EXPECT_FALSE(request("ppo", {}).own_ends);
  EXPECT_TRUE(request("ppo", {}).sampling.stop_ids.empty());
  EXPECT_EQ(request("ppo", {{"stop_token_id", "5"}}).sampling.stop_ids, std::vector<int32_t>{5});
  const auto tokenizer = data::open_tokenizer(test::golden_path("models/qwen2"));
  const int32_t end = tokenizer->special_id(tokenizer->special().eos).value();
  EXPECT_EQ(request("ppo", {{"stop_token", "eos"}}).sampling.stop_ids, std::vector<int32_t>{end});
}

TEST(TrainerRequest, PromptLookupHasVllmsDefaults) {
  TRL_NEED_GOLDEN("models/qwen2/tokenizer.json");
  const auto made = [](const std::string& more) {
    const std::string kwargs = "{speculative_config: {method: ngram, num_speculative_tokens: 4" + more + "}}";
    const engine::Speculation s = request("rloo", {{"generation_kwargs", kwargs}}).sampling.speculation;
    return std::vector<int64_t>{s.tokens, s.most_ngram, s.least_ngram};
  };
  EXPECT_EQ(request("rloo", {}).sampling.speculation.tokens, 0);
  EXPECT_EQ(made(""), (std::vector<int64_t>{4, 5, 5}));
  EXPECT_EQ(made(", prompt_lookup_max: 3"), (std::vector<int64_t>{4, 3, 3}));
  EXPECT_EQ(made(", prompt_lookup_min: 2"), (std::vector<int64_t>{4, 2, 2}));
  EXPECT_EQ(made(", prompt_lookup_max: 6, prompt_lookup_min: 2"), (std::vector<int64_t>{4, 6, 2}));
}

}  // namespace
}  // namespace trl::run
