// Log-probabilities of the ids of prompts.
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "generate/choice.h"
#include "generate/completions.h"
#include "support/golden.h"
#include "support/recorded.h"

namespace trl::generate {
namespace {

using base::Json;
using engine::PromptToken;
using test::Completion;
using test::Completions;

PromptToken scored(const std::vector<float>& logits, int32_t id, int64_t best, double temperature = 1) {
  PromptToken token{.position = 1, .id = id};
  score_id(logits, best, temperature, token);
  return token;
}

TEST(ScoreId, RanksAnIdAmongAll) {
  const std::vector<float> logits = {0, 3, 1, 3, -INFINITY};
  const double sum = std::log(1 + 2 * std::exp(3) + std::exp(1));
  const PromptToken first = scored(logits, 3, 2);
  EXPECT_NEAR(first.log_probability, 3 - sum, 1e-5);
  EXPECT_EQ(first.rank, 2);  // of equal ones the lower id is before it
  ASSERT_EQ(first.best.size(), 2u);
  EXPECT_EQ(first.best[0].id, 1);
  EXPECT_EQ(first.best[1].id, 3);
  EXPECT_EQ(first.best[1].log_probability, first.log_probability);
  EXPECT_EQ(scored(logits, 3, 0).rank, 2);  // so many are as likely
  EXPECT_EQ(scored(logits, 2, 2).rank, 3);
  EXPECT_EQ(scored(logits, 0, 1).rank, 4);
  EXPECT_EQ(scored(logits, 4, 5).log_probability, -INFINITY);
  EXPECT_EQ(scored(logits, 4, 5).rank, 5);
  const double half = std::log(std::exp(0) + 2 * std::exp(1.5) + std::exp(.5));
  EXPECT_NEAR(scored(logits, 2, 1, 2).log_probability, .5 - half, 1e-5);
}

TEST(ScoreId, WithoutNumbersThereIsNone) {
  const PromptToken token = scored({0, NAN, 1}, 2, 2);
  EXPECT_TRUE(std::isnan(token.log_probability));
  EXPECT_TRUE(token.best.empty());
}

std::vector<int32_t> ids_of(const Json& run, size_t row) {
  std::vector<int32_t> ids;
  for (size_t i = 0; i < run["input_ids"][row].size(); ++i)
    if (run["attention_mask"][row][i] == 1) ids.push_back(run["input_ids"][row][i].get<int32_t>());
  return ids;
}

TEST(PromptScores, AreThoseOfTheRecordedForward) {
  TRL_NEED_GOLDEN("forward/qwen2/case.json");
  int compared = 0;
  for (const char* name :
       {"qwen2", "llama", "llama3", "mistral", "qwen3", "gemma2", "gemma3", "phi3", "gpt2"}) {
    SCOPED_TRACE(name);
    const std::string path = std::string("forward/") + name + "/case.json";
    if (test::golden_path(path).empty()) continue;
    const Json run = test::golden_json(path)["runs"]["right"];
    const auto model = model::Model::open(test::golden_path(std::string("models/") + name), "float32");
    Generator generator(*model, at::kFloat, {.blocks = 16, .step_tokens = 7});
    Completions got;
    for (size_t row = 0; row < run["input_ids"].size(); ++row) {
      Request request;
      request.ids = ids_of(run, row);
      request.sampling.max_new_tokens = 2;
      request.sampling.prompt_best = 3;
      generator.add(request);
    }
    test::run(generator, got);
    for (size_t row = 0; row < run["input_ids"].size(); ++row) {
      const std::vector<int32_t> ids = ids_of(run, row);
      const std::vector<PromptToken>& prompt = got.all[static_cast<int64_t>(row)].prompt;
      ASSERT_EQ(prompt.size() + 1, ids.size());
      for (size_t i = 0; i < prompt.size(); ++i, ++compared) {
        EXPECT_EQ(prompt[i].id, ids[i + 1]);
        EXPECT_TRUE(test::close(prompt[i].log_probability, run["token_logprobs"][row][i].get<double>(),
                                test::limits::forward))
            << row << ", " << i;
        ASSERT_EQ(prompt[i].best.size(), 3u);
        EXPECT_EQ(prompt[i].rank <= 3, prompt[i].log_probability >= prompt[i].best[2].log_probability);
      }
    }
  }
  EXPECT_GE(compared, 5 * (24 + 17 + 9 - 3));
}

std::unique_ptr<model::Model> open_model() {
  return model::Model::open(test::golden_path("models/qwen2"), "float32");
}

Request of_length(int32_t length, int64_t best) {
  Request request;
  for (int32_t i = 0; i < length; ++i) request.ids.push_back(i * 31 % 400);
  request.sampling.prompt_best = best;
  request.sampling.max_new_tokens = 3;
  return request;
}

// A prompt that was written is scored as it was written.
TEST(PromptScores, AreThoseOfTheSameTokensWhenTheyWereWritten) {
  TRL_NEED_GOLDEN("models/qwen2/config.json");
  const auto model = open_model();
  Request request = of_length(70, -1);
  request.sampling.max_new_tokens = 12;
  request.sampling.log_probabilities = true;
  Generator generator(*model, at::kFloat, {.blocks = 16, .step_tokens = 32});
  Completions written;
  generator.add(request);
  test::run(generator, written);
  const Completion& whole = written.all[0];
  Request again = request;
  again.ids.insert(again.ids.end(), whole.ids.begin(), whole.ids.end());
  again.sampling.prompt_best = 0;
  const int64_t number = generator.add(again);
  test::run(generator, written);
  const std::vector<PromptToken>& prompt = written.all[number].prompt;
  ASSERT_EQ(prompt.size(), again.ids.size() - 1);
  for (size_t i = 0; i < whole.ids.size(); ++i) {
    EXPECT_EQ(prompt[69 + i].id, whole.ids[i]);
    EXPECT_EQ(prompt[69 + i].rank, 1);
    EXPECT_EQ(prompt[69 + i].log_probability, whole.whole[i]) << i;
  }
}

TEST(PromptScores, NeedAllRowsAndLeaveTheirBlocksToOthers) {
  TRL_NEED_GOLDEN("models/qwen2/config.json");
  const auto model = open_model();
  Generator generator(*model, at::kFloat, {.blocks = 32, .step_tokens = 50});
  Completions got;
  const auto run = [&](int64_t best) {
    const int64_t number = generator.add(of_length(150, best));
    test::run(generator, got);
    return number;
  };
  const int64_t first = run(2), second = run(2), plain = run(-1);
  EXPECT_EQ(got.known[first], 0);
  EXPECT_EQ(got.known[second], 0);
  EXPECT_EQ(got.known[plain], 128);
  EXPECT_EQ(got.all[first].prompt.size(), 149u);
  EXPECT_EQ(got.all[first].prompt, got.all[second].prompt);
  EXPECT_TRUE(got.all[plain].prompt.empty());
  EXPECT_EQ(got.all[first].ids, got.all[plain].ids);
}

TEST(PromptScores, GoOnWithAnotherOneOfTheRequest) {
  TRL_NEED_GOLDEN("models/qwen2/config.json");
  const auto model = open_model();
  Request request = of_length(60, 1);
  request.sampling.temperature = 1;
  const std::vector<PromptToken> want = test::alone(*model, at::kFloat, request)[0].prompt;
  request.count = 3;
  Generator generator(*model, at::kFloat, {.blocks = 16, .step_tokens = 16});
  Completions got;
  generator.add(request);
  generator.step(got);
  generator.step(got);
  generator.end(0);
  std::vector<PromptToken> all = got.all[0].prompt;
  EXPECT_EQ(all.size(), 32u);
  struct Rest final : engine::GenerationSink {
    explicit Rest(std::vector<PromptToken>& tokens) : told(tokens) {}
    bool on_token(int64_t, const engine::Token&) noexcept override { return true; }
    void on_end(int64_t, engine::Finish, std::string_view) noexcept override {}
    void on_begin(int64_t, int64_t) noexcept override { ADD_FAILURE() << "begins twice"; }
    void on_prompt(int64_t sequence, const PromptToken& token) noexcept override {
      EXPECT_EQ(sequence, 1);
      told.push_back(token);
    }
    std::vector<PromptToken>& told;
  } rest(all);
  while (generator.step(rest)) {
  }
  EXPECT_EQ(all, want);
}

TEST(PromptScores, RefuseWhatTheyCannotBe) {
  TRL_NEED_GOLDEN("models/qwen2/config.json");
  const auto model = open_model();
  Generator generator(*model, at::kFloat, {.blocks = 16});
  Request request = of_length(3, -2);
  EXPECT_THROW(generator.add(request), Error);
  request.sampling.prompt_best = 1;
  for (const double temperature : {0.0, -1.0, static_cast<double>(NAN)}) {
    request.sampling.prompt_temperature = temperature;
    EXPECT_THROW(generator.add(request), Error) << temperature;
  }
}

}  // namespace
}  // namespace trl::generate
