// fused_kernels: off belongs to a model or a trainer: it holds for every call, on whichever thread of the
// host.
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "engine/requests.h"
#include "engine/rewarded.h"

namespace {

using host::Error;

const host::Settings kPlain = {{"fused_kernels", "off"}};

template <class Body>
void on_another_thread(const Body& body) {
  std::thread(body).join();
}

// Its heads have 20 elements, for which fused kernels lay keys and values out in more bytes.
nlohmann::json completed(const host::Settings& options, bool elsewhere) {
  const host::Model model = host::open_model(host::golden("models/qwen3"), options);
  const host::Generator g = host::generator_of(model.get());
  const host::Settings asked = {
      {"generate.max_new_tokens", "12"}, {"generate.ignore_eos", "true"}, {"generate.logprobs", "0"}};
  const size_t number = host::add(g.get(), "The small kernel", asked);
  if (elsewhere)
    on_another_thread([&] { host::finish(g.get()); });
  else
    host::finish(g.get());
  return host::taken(g.get(), number);
}

TEST(PlainKernels, AGeneratorHasThemOnEveryThread) {
  NEED_GOLDEN("models/qwen3/model.safetensors");
  const nlohmann::json fused = completed({}, false), plain = completed(kPlain, false);
  EXPECT_EQ(completed(kPlain, true), plain);
  EXPECT_EQ(completed({}, true), fused);
  ASSERT_EQ(plain["token_ids"].size(), 12u);
  EXPECT_NEAR(plain["logprobs"][0].get<double>(), fused["logprobs"][0].get<double>(), 1e-3);
  EXPECT_NE(plain["logprobs"], fused["logprobs"]);
}

TEST(PlainKernels, ARunThatWritesCompletionsHasThemOnEveryThread) {
  NEED_GOLDEN("models/qwen3/model.safetensors");
  const auto losses = [](bool elsewhere) {
    const host::Scratch scratch;
    host::Settings settings = host::with(kPlain, {{"model_name_or_path", host::golden("models/qwen3")}});
    host::Rewarded run(host::grpo(scratch / "out", settings), host::reward_all);
    trl_status status = TRL_OK;
    if (elsewhere)
      on_another_thread([&] { status = run.train(); });
    else
      status = run.train();
    EXPECT_EQ(status, TRL_OK) << run.error.message();
    std::vector<double> all;
    for (const host::Json& record : run.last())
      if (record.contains("loss")) all.push_back(record["loss"]);
    return all;
  };
  const std::vector<double> here = losses(false);
  EXPECT_EQ(here.size(), 3u);
  EXPECT_EQ(losses(true), here);
}

TEST(PlainKernels, AModelScoresWithThemOnEveryThread) {
  NEED_GOLDEN("models/qwen2/model.safetensors");
  const char* const texts[] = {
      "one two three",         "four", "five six", "The small kernel of a row", "seven eight nine", "ten",
      "What does the sea say", "row 3"};
  constexpr size_t kTexts = std::size(texts);
  const auto scores = [&](host::Settings options, bool elsewhere) {
    options.emplace_back("method", "reward");
    const host::Model model = host::open_model(host::golden("models/qwen2"), options);
    std::vector<float> all(kTexts);
    const auto score = [&] {
      Error error;
      EXPECT_EQ(
          trl_model_score(model.get(), texts, nullptr, kTexts, TRL_TEXT_AS_IS, nullptr, all.data(), error),
          TRL_OK)
          << error.message();
    };
    if (elsewhere)
      on_another_thread(score);
    else
      score();
    return all;
  };
  const std::vector<float> fused = scores({}, false), plain = scores(kPlain, false);
  EXPECT_EQ(scores(kPlain, true), plain);
  EXPECT_EQ(scores({}, true), fused);
  EXPECT_NE(plain, fused);
  for (size_t i = 0; i < kTexts; ++i) EXPECT_NEAR(plain[i], fused[i], 1e-3 * (1 + std::abs(fused[i]))) << i;
}

}  // namespace
