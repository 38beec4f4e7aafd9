// trl_model_score: the scores of a reward model, compared with those that transformers gave the same texts.
#include <cmath>

#include "engine/run.h"

namespace {

using host::Error;
using host::Json;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

std::vector<float> scores(trl_model* model, const std::vector<std::string>& texts, int32_t form,
                          const host::Settings& options = {}) {
  std::vector<const char*> given;
  for (const std::string& text : texts) given.push_back(text.c_str());
  std::vector<float> out(texts.size());
  Error error;
  EXPECT_EQ(trl_model_score(model, given.data(), nullptr, given.size(), form, host::config(options).get(),
                            out.data(), error),
            TRL_OK)
      << error.message();
  return out;
}

TEST(Score, IsThatOfTransformers) {
  NEED_MODEL();
  const Json recorded = host::golden_json("reward/scores.json");
  const host::Model model = host::open_model(host::golden("models/qwen2"), {{"method", "reward"}});
  for (const auto& [name, form] : {std::pair{"plain", TRL_TEXT_AS_IS},
                                   {"with_eos", TRL_TEXT_ANSWER},
                                   {"conversations", TRL_TEXT_CONVERSATION}}) {
    const std::vector<std::string> texts = recorded[name]["texts"];
    const std::vector<double> want = recorded[name]["scores"];
    for (const char* batch : {"1", "3", "8"}) {
      const std::vector<float> got =
          scores(model.get(), texts, form, {{"per_device_eval_batch_size", batch}});
      for (size_t i = 0; i < want.size(); ++i)
        EXPECT_TRUE(host::close(got[i], want[i], host::limits::forward))
            << name << " " << i << ": " << got[i];
    }
  }
}

// A run's model and its adapter open as reward models without any option, and give the rewards that the run
// measured.
TEST(Score, OfASavedRunIsWhatItMeasured) {
  NEED_MODEL();
  for (const char* adapter : {"false", "true"}) {
    SCOPED_TRACE(adapter);
    const host::Scratch scratch;
    const host::Dataset rows = host::rows(
        "{\"chosen\": \"one two three\", \"rejected\": \"four\"}\n"
        "{\"chosen\": \"five six\", \"rejected\": \"seven eight nine\"}\n");
    const host::Settings settings =
        host::with(host::with({{"method", "reward"}}, host::tiny((scratch / "out").string())),
                   {{"max_steps", "2"},
                    {"save_strategy", "no"},
                    {"use_peft", adapter},
                    {"per_device_train_batch_size", "2"}});
    const host::Trainer trainer = host::trainer(settings, rows.get(), rows.get());
    Error error;
    ASSERT_EQ(trl_trainer_train(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
    ASSERT_EQ(trl_trainer_save(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
    const trl_metrics* metrics = nullptr;
    ASSERT_EQ(trl_trainer_evaluate(trainer.get(), nullptr, &metrics, error), TRL_OK) << error.message();
    const host::Model model = host::open_model((scratch / "out").string());
    const std::vector<float> got =
        scores(model.get(), {"one two three", "five six", "four", "seven eight nine"}, TRL_TEXT_ANSWER);
    EXPECT_NEAR(*std::min_element(got.begin(), got.end()), host::metric(metrics, "eval_min_reward"), 1e-6);
    EXPECT_NEAR(*std::max_element(got.begin(), got.end()), host::metric(metrics, "eval_max_reward"), 1e-6);
    EXPECT_NEAR((got[0] + got[1] - got[2] - got[3]) / 2, host::metric(metrics, "eval_margin"), 1e-6);
  }
}

// As rows of a run: a rotary embedding goes on.
TEST(Score, OfATextBeyondThePositionsIsWarnedOf) {
  NEED_MODEL();
  const host::Runtime runtime = host::runtime();
  std::string log;
  const auto note = [](void* to, int32_t, const char*, const char* text, size_t) {
    static_cast<std::string*>(to)->append(text).append("\n");
  };
  Error error;
  ASSERT_EQ(trl_runtime_set_log(runtime.get(), note, &log, nullptr, error), TRL_OK) << error.message();
  trl_model* made = nullptr;
  ASSERT_EQ(trl_model_open(runtime.get(), host::golden("models/qwen2").c_str(),
                           host::config({{"method", "reward"}}).get(), &made, error),
            TRL_OK)
      << error.message();
  const host::Model model(made);
  const std::string all(256, '7'), longer(257, '7');  // a digit is a token
  log.clear();
  EXPECT_TRUE(std::isfinite(scores(model.get(), {"one", all}, TRL_TEXT_AS_IS)[1]));
  EXPECT_EQ(log.find("positions"), std::string::npos) << log;
  EXPECT_TRUE(std::isfinite(scores(model.get(), {all, longer, "one"}, TRL_TEXT_AS_IS)[1]));
  EXPECT_NE(log.find("texts[1] has 257 tokens, and the model has 256 positions: the score"),
            std::string::npos)
      << log;
}

TEST(Score, RefusesWhatHasNone) {
  NEED_MODEL();
  const host::Model language = host::open_model(host::golden("models/qwen2"));
  const host::Model model = host::open_model(host::golden("models/qwen2"), {{"method", "reward"}});
  const char* const texts[] = {"one", nullptr};
  float out[] = {7, 7};
  Error error;
  const auto score = [&](trl_model* of, const char* const* list, size_t count, int32_t form) {
    return trl_model_score(of, list, nullptr, count, form, nullptr, out, error);
  };
  EXPECT_EQ(score(language.get(), texts, 1, TRL_TEXT_AS_IS), TRL_E_UNSUPPORTED);
  EXPECT_TRUE(error.names("gives no scores")) << error.message();
  EXPECT_EQ(score(model.get(), texts, 2, TRL_TEXT_AS_IS), TRL_E_INVALID_ARGUMENT);
  EXPECT_TRUE(error.names("texts[1]")) << error.message();
  EXPECT_EQ(score(model.get(), texts, 1, 9), TRL_E_INVALID_ARGUMENT);
  EXPECT_EQ(score(model.get(), texts, 1, TRL_TEXT_CONVERSATION), TRL_E_FORMAT);
  const char* const empty[] = {""};
  EXPECT_EQ(score(model.get(), empty, 1, TRL_TEXT_AS_IS), TRL_E_INVALID_ARGUMENT);
  const char* const invalid[] = {"\xff"};
  EXPECT_EQ(score(model.get(), invalid, 1, TRL_TEXT_AS_IS), TRL_E_FORMAT);
  EXPECT_EQ(out[0] + out[1], 14);
  EXPECT_EQ(score(model.get(), nullptr, 0, TRL_TEXT_ANSWER), TRL_OK) << error.message();
}

TEST(Score, AModelThatHasSomeHasNoGenerator) {
  NEED_MODEL();
  const host::Model model = host::open_model(host::golden("models/qwen2"), {{"method", "reward"}});
  trl_generator* made = nullptr;
  Error error;
  EXPECT_EQ(trl_generator_create(model.get(), nullptr, &made, error), TRL_E_UNSUPPORTED);
  EXPECT_EQ(made, nullptr);
  EXPECT_TRUE(error.names("a reward model scores text")) << error.message();
}

}  // namespace
