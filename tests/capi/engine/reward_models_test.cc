// Reward models of methods that write completions.
#include "engine/rewarded.h"

namespace {

using host::Error;
using host::grpo;
using host::Json;
using host::reward_all;
using host::Rewarded;
using host::row_of;
using host::Settings;

TEST(RewardModels, HaveTheNameOfTheirFolder) {
  NEED_GOLDEN("models/qwen2_rm/model.safetensors");
  const host::Scratch scratch;
  for (const char* end : {"", "/"}) {
    const Settings own = {{"max_steps", "1"},
                          {"reward_model_name_or_path", host::golden("models/qwen2_rm") + end}};
    Rewarded run(grpo(scratch / "out", own), reward_all);
    ASSERT_EQ(run.train(), TRL_OK) << run.error.message();
    EXPECT_TRUE(run.last()[0].contains("rewards/qwen2_rm/mean")) << run.last()[0];
  }
}

// What trl reward saves with use_peft: the adapter scores, on the model that it names.
TEST(RewardModels, MayBeAdapters) {
  NEED_GOLDEN("models/qwen2/model.safetensors");
  const host::Scratch scratch;
  const std::string scorer = (scratch / "scorer").string();
  {
    const host::Dataset rows = host::rows(
        "{\"chosen\": \"one two three\", \"rejected\": \"four\"}\n"
        "{\"chosen\": \"five six\", \"rejected\": \"seven eight nine\"}\n");
    const Settings own = {{"method", "reward"},      {"use_peft", "true"},
                          {"learning_rate", "0.01"}, {"per_device_train_batch_size", "2"},
                          {"max_steps", "2"},        {"save_strategy", "no"}};
    const host::Trainer trainer = host::trainer(host::with(host::tiny(scorer), own), rows.get(), nullptr);
    Error error;
    ASSERT_EQ(trl_trainer_train(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
    ASSERT_EQ(trl_trainer_save(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
  }
  const host::Model model = host::open_model(scorer);
  std::vector<std::string> texts;
  const Settings own = {{"max_steps", "1"}, {"reward_model_name_or_path", scorer}};
  Rewarded run(grpo(scratch / "out", own), [&](trl_rollout* rollout) {
    for (size_t i = 0; i < trl_rollout_count(rollout); ++i) {
      const Json row = row_of(rollout, i);
      texts.push_back(row["prompt"].get<std::string>() + row["completion"].get<std::string>());
    }
    return reward_all(rollout);
  });
  ASSERT_EQ(run.train(), TRL_OK) << run.error.message();
  std::vector<const char*> given;
  for (const std::string& text : texts) given.push_back(text.c_str());
  std::vector<float> scores(texts.size());
  Error error;
  ASSERT_EQ(trl_model_score(model.get(), given.data(), nullptr, given.size(), TRL_TEXT_AS_IS,
                            host::config({}).get(), scores.data(), error),
            TRL_OK)
      << error.message();
  double sum = 0;
  for (const float score : scores) sum += static_cast<double>(score);
  EXPECT_NEAR(run.last()[0]["rewards/scorer/mean"].get<double>(), sum / static_cast<double>(scores.size()),
              1e-4);
  EXPECT_NE(sum, 0);
}

// Splits the special tokens of rows, and not those of the template's variables.
TEST(RewardModels, TakeSpecialTokensInVariablesOfTheTemplate) {
  NEED_GOLDEN("models/qwen2_rm/model.safetensors");
  const host::Scratch scratch;
  const std::string rows = R"({"prompt": [{"role": "user", "content": "Name a planet"}]})"
                           "\n";
  const auto train = [&](const std::string& mark) {
    const std::filesystem::path model = scratch / "scorer";
    host::copy_model("models/qwen2_rm", model);
    host::write_file(model / "chat_template.jinja",
                     "{% for m in messages %}" + mark + "{{ m.content }}{% endfor %}");
    const Settings own = {{"max_steps", "1"},
                          {"per_device_train_batch_size", "2"},
                          {"split_special_tokens", "true"},
                          {"chat_template_kwargs", R"({"mark": "<|im_end|>"})"},
                          {"reward_model_name_or_path", model.string()}};
    Rewarded run(grpo(scratch / "out", own), reward_all, rows.c_str());
    EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
    return run.last()[0]["rewards/scorer/mean"];
  };
  EXPECT_EQ(train("{{ mark }}"), train("<|im_end|>"));
}

}  // namespace
