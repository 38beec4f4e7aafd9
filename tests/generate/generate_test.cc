// The decode loop: reproducible samples, stop ids, early ends, cancellation.
#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "support/generate.h"
#include "support/golden.h"
#include "support/interrupts.h"

namespace trl::generate {
namespace {

struct Sink final : TokenSink {
  std::vector<std::vector<int32_t>> ids;
  std::vector<std::vector<float>> log_probabilities;
  int64_t stop_after = INT64_MAX;
  bool on_token(int64_t prompt, int32_t id, float log_probability) noexcept override {
    const auto p = static_cast<size_t>(prompt);
    if (ids.size() <= p) ids.resize(p + 1), log_probabilities.resize(p + 1);
    ids[p].push_back(id);
    log_probabilities[p].push_back(log_probability);
    return static_cast<int64_t>(ids[p].size()) < stop_after;
  }
};

using Prompts = std::vector<std::vector<int32_t>>;

void run(model::Model& model, const Prompts& prompts, const engine::Sampling& sampling, Sink& sink,
         at::ScalarType compute = at::kFloat) {
  std::vector<std::span<const int32_t>> views(prompts.begin(), prompts.end());
  generate(model, nullptr, views, sampling, compute, sink);
}

std::unique_ptr<model::Model> open(const std::string& name) {
  return model::Model::open(test::golden_path("models/" + name), "float32");
}

TEST(Generate, SamplesDependOnSeedPromptAndPositionAlone) {
  TRL_NEED_GOLDEN("models/qwen2/config.json");
  const auto model = open("qwen2");
  engine::Sampling sampling;
  sampling.temperature = 1.0;
  sampling.max_new_tokens = 12;
  sampling.log_probabilities = true;
  const Prompts prompts = {{1, 2, 3}, {1, 2, 3}};
  Sink first, second, other, alone, longer;
  run(*model, prompts, sampling, first);
  run(*model, prompts, sampling, second);
  EXPECT_EQ(first.ids, second.ids);
  EXPECT_EQ(first.log_probabilities, second.log_probabilities);
  EXPECT_NE(first.ids[0], first.ids[1]);  // same prompt, other number
  run(*model, {{1, 2, 3}}, sampling, alone);
  EXPECT_EQ(alone.ids[0], first.ids[0]);
  sampling.max_new_tokens = 20;
  run(*model, prompts, sampling, longer);
  EXPECT_TRUE(std::equal(first.ids[1].begin(), first.ids[1].end(), longer.ids[1].begin()));
  sampling.seed = 43;
  run(*model, prompts, sampling, other);
  EXPECT_FALSE(std::equal(first.ids[0].begin(), first.ids[0].end(), other.ids[0].begin()));
}

TEST(Generate, StopsBehindAStopIdAndWhenTheSinkSaysSo) {
  TRL_NEED_GOLDEN("models/llama/config.json");
  const auto model = open("llama");
  engine::Sampling sampling;
  sampling.max_new_tokens = 24;
  const Prompts prompts = {{378, 91, 138, 258, 229, 344, 103, 152, 189}};
  Sink whole;
  run(*model, prompts, sampling, whole);
  ASSERT_EQ(whole.ids[0].size(), 24u);
  const std::vector<int32_t> stop = {whole.ids[0][4]};
  const auto at = std::find(whole.ids[0].begin(), whole.ids[0].end(), stop[0]);
  sampling.stop_ids = stop;
  Sink stopped;
  run(*model, prompts, sampling, stopped);
  EXPECT_EQ(stopped.ids[0], std::vector<int32_t>(whole.ids[0].begin(), at + 1));
  sampling.stop_ids = {};
  Sink told;
  told.stop_after = 3;
  run(*model, {prompts[0], prompts[0]}, sampling, told);
  EXPECT_EQ(told.ids[0].size(), 3u);
  EXPECT_EQ(told.ids[1].size(), 3u);
}

TEST(Generate, RepetitionPenaltySeesThePrompt) {
  TRL_NEED_GOLDEN("models/llama/config.json");
  const auto model = open("llama");
  engine::Sampling sampling;
  sampling.max_new_tokens = 10;
  sampling.repetition_penalty = 1e6;  // whatever was there is as good as gone
  Sink sink;
  run(*model, {{378, 91, 138}}, sampling, sink);
  std::vector<int32_t> all = {378, 91, 138};
  all.insert(all.end(), sink.ids[0].begin(), sink.ids[0].end());
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::unique(all.begin(), all.end()), all.end());
}

TEST(Generate, Cancels) {
  TRL_NEED_GOLDEN("models/llama/config.json");
  const auto model = open("llama");
  engine::Sampling sampling;
  test::StopsAt count;
  Sink whole;
  {
    const base::InterruptScope scope(&count);
    run(*model, {{1, 2}}, sampling, whole);
  }
  EXPECT_GT(count.polls, 10 * sampling.max_new_tokens);  // not between tokens alone
  test::StopsAt half(count.polls / 2);
  const base::InterruptScope scope(&half);
  Sink sink;
  try {
    run(*model, {{1, 2}}, sampling, sink);
    ADD_FAILURE() << "not cancelled";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::cancelled);
  }
  ASSERT_LT(sink.ids[0].size(), whole.ids[0].size());
  EXPECT_TRUE(std::equal(sink.ids[0].begin(), sink.ids[0].end(), whole.ids[0].begin()));
}

TEST(Generate, RefusesBadPrompts) {
  TRL_NEED_GOLDEN("models/llama/config.json");
  const auto model = open("llama");
  Sink sink;
  EXPECT_THROW(run(*model, {{}}, {}, sink), Error);
  EXPECT_THROW(run(*model, {{448}}, {}, sink), Error);
  EXPECT_THROW(run(*model, {{-1}}, {}, sink), Error);
  engine::Sampling sampling;
  sampling.top_p = 2;
  EXPECT_THROW(run(*model, {{1}}, sampling, sink), Error);
  EXPECT_TRUE(sink.ids.empty());
}

}  // namespace
}  // namespace trl::generate
