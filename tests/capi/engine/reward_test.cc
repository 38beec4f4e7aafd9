// method: reward through the C API, on a language model, which gets a head that scores: rows of every form
// that TRL takes, what is saved, and bad input.
#include "engine/run.h"

namespace {

using host::Error;
using host::Json;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

host::Settings reward(const host::Scratch& scratch, const host::Settings& more = {}) {
  host::Settings settings = {{"method", "reward"}};
  for (const auto& pair : host::tiny(scratch / "out")) settings.push_back(pair);
  return host::with(std::move(settings), host::with({{"max_steps", "2"}, {"save_strategy", "no"}}, more));
}

std::string repeated(const std::string& row, int times) {
  std::string rows;
  for (int i = 0; i < times; ++i) rows += row + "\n";
  return rows;
}

constexpr const char* kPair = R"({"prompt": "one two", "chosen": " three four", "rejected": " five"})";

std::string reward_refusal(const host::Settings& settings, const std::string& rows) {
  trl_trainer* made = nullptr;
  Error error;
  const host::Dataset dataset = host::rows(rows);
  EXPECT_NE(trl_trainer_create(nullptr, host::config(settings).get(), dataset.get(), nullptr, &made, error),
            TRL_OK);
  trl_trainer_destroy(made);
  return error.message();
}

TEST(Reward, RowsOfEveryFormTrain) {
  NEED_MODEL();
  for (const char* row :
       {kPair, R"({"chosen": "one two three", "rejected": "one two four", "margin": 0.5})",
        R"({"prompt": [{"role": "user", "content": "one"}],
 "chosen": [{"role": "assistant", "content": "two"}], "rejected": [{"role": "assistant", "content": "three"}]})",
        R"({"chosen": [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}],
 "rejected": [{"role": "user", "content": "one"}, {"role": "assistant", "content": "three"}]})",
        R"({"chosen_ids": [5, 6, 7], "rejected_ids": [5, 8]})"}) {
    SCOPED_TRACE(row);
    const host::Scratch scratch;
    std::string line(row);
    std::replace(line.begin(), line.end(), '\n', ' ');
    const host::Dataset dataset = host::rows(repeated(line, 8));
    const host::Trainer trainer = host::trainer(reward(scratch), dataset.get());
    const trl_metrics* metrics = nullptr;
    Error error;
    ASSERT_EQ(trl_trainer_step(trainer.get(), &metrics, error), TRL_OK) << error.message();
    const double least = host::metric(metrics, "min_reward"), mean = host::metric(metrics, "mean_reward"),
                 most = host::metric(metrics, "max_reward"), accuracy = host::metric(metrics, "accuracy");
    EXPECT_LE(least, mean);
    EXPECT_LE(mean, most);
    EXPECT_TRUE(accuracy == 0 || accuracy == 1);
    EXPECT_NE(host::metric(metrics, "margin"), 0);
    EXPECT_GT(host::metric(metrics, "num_tokens"), 0);
  }
}

// A margin is what the difference of the scores is to be beyond.
TEST(Reward, MarginsCount) {
  NEED_MODEL();
  const auto loss = [](const std::string& rows) {
    const host::Scratch scratch;
    const host::Dataset dataset = host::rows(rows);
    const host::Trainer trainer = host::trainer(reward(scratch), dataset.get());
    const trl_metrics* metrics = nullptr;
    EXPECT_EQ(trl_trainer_step(trainer.get(), &metrics, nullptr), TRL_OK);
    return host::metric(metrics, "loss");
  };
  const double without = loss(repeated(R"({"chosen": "one two", "rejected": "three"})", 4));
  const double with = loss(repeated(R"({"chosen": "one two", "rejected": "three", "margin": 3})", 4));
  EXPECT_GT(with, without + 1);
}

TEST(Reward, SavesAClassifier) {
  NEED_MODEL();
  const host::Scratch scratch;
  const host::Dataset dataset = host::rows(repeated(kPair, 8));
  const host::Trainer trainer = host::trainer(reward(scratch), dataset.get());
  Error error;
  ASSERT_EQ(trl_trainer_train(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
  ASSERT_EQ(trl_trainer_save(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
  const Json config = host::parse(host::read_file(scratch / "out" / "config.json"));
  EXPECT_EQ(config["architectures"], Json({"Qwen2ForSequenceClassification"}));
  EXPECT_EQ(config["id2label"], Json({{"0", "LABEL_0"}}));
  EXPECT_TRUE(config["pad_token_id"].is_number_integer());
  const auto tensors = host::read_safetensors(scratch / "out" / "model.safetensors");
  EXPECT_EQ(tensors.at("score.weight").shape, (std::vector<int64_t>{1, 64}));
  EXPECT_EQ(tensors.count("lm_head.weight"), 0u);

  // It is trained on, and is not a language model.
  host::Settings again = reward(scratch);
  again.emplace_back("model_name_or_path", (scratch / "out").string());
  again.emplace_back("output_dir", (scratch / "again").string());
  const host::Trainer next = host::trainer(again, dataset.get());
  EXPECT_EQ(trl_trainer_step(next.get(), nullptr, error), TRL_OK) << error.message();
}

// Also on weights in blocks; the head is not one of them.
TEST(Reward, AdaptersTrainTheHead) {
  NEED_MODEL();
  for (const char* four_bit : {"false", "true"}) {
    SCOPED_TRACE(four_bit);
    const host::Scratch scratch;
    const host::Dataset dataset = host::rows(repeated(kPair, 8));
    const host::Settings settings = reward(
        scratch,
        {{"use_peft", "true"}, {"lora_target_modules", "[q_proj, v_proj]"}, {"load_in_4bit", four_bit}});
    const host::Trainer trainer = host::trainer(settings, dataset.get());
    Error error;
    ASSERT_EQ(trl_trainer_train(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
    ASSERT_EQ(trl_trainer_save(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
    const Json config = host::parse(host::read_file(scratch / "out" / "adapter_config.json"));
    EXPECT_EQ(config["task_type"], "SEQ_CLS");
    const auto tensors = host::read_safetensors(scratch / "out" / "adapter_model.safetensors");
    EXPECT_EQ(tensors.at("base_model.model.score.weight").shape, (std::vector<int64_t>{1, 64}));

    // A run goes on with it.
    host::Settings again = {{"method", "reward"}};
    for (const auto& pair : host::tiny(scratch / "again")) again.push_back(pair);
    for (const auto& pair : host::Settings{{"max_steps", "1"},
                                           {"save_strategy", "no"},
                                           {"use_peft", "true"},
                                           {"load_in_4bit", four_bit},
                                           {"adapter_name_or_path", (scratch / "out").string()}})
      again.push_back(pair);
    const host::Trainer next = host::trainer(again, dataset.get());
    EXPECT_EQ(trl_trainer_step(next.get(), nullptr, error), TRL_OK) << error.message();
  }
}

TEST(Reward, BadInputIsRefused) {
  NEED_MODEL();
  const host::Scratch scratch;
  EXPECT_NE(reward_refusal(reward(scratch, {{"max_length", "2"}}), repeated(kPair, 3))
                .find("nothing is left to train"),
            std::string::npos);
  EXPECT_NE(reward_refusal(reward(scratch), R"({"chosen": "a", "rejected": "b", "margin": "wide"})")
                .find("'margin'"),
            std::string::npos);
  EXPECT_NE(reward_refusal(reward(scratch), R"({"chosen": "a"})").find("'rejected'"), std::string::npos);
  EXPECT_NE(reward_refusal(reward(scratch, {{"save_format", "gguf"}}), repeated(kPair, 3))
                .find("it is a classifier"),
            std::string::npos);
}

TEST(Reward, DoubtfulRowsAreCounted) {
  NEED_MODEL();
  const host::Scratch scratch;
  const host::Runtime runtime = host::runtime();
  std::string log;
  const auto note = [](void* to, int32_t, const char*, const char* text, size_t) {
    static_cast<std::string*>(to)->append(text).append("\n");
  };
  Error error;
  ASSERT_EQ(trl_runtime_set_log(runtime.get(), note, &log, nullptr, error), TRL_OK) << error.message();
  const host::Dataset dataset = host::rows(
      repeated(kPair, 4) +
      R"({"prompt": "a", "chosen": " b", "rejected": " b"})"
      "\n"
      R"({"prompt": "a", "chosen": "", "rejected": " b"})"
      "\n"
      R"({"prompt": "a", "chosen": " b c d e f g h i j k l m n o p q r s t u v w x y z b c d e f g h i j k l m n o p q r s t u v w x y z", "rejected": " b"})"
      "\n");
  const host::Trainer trainer =
      host::trainer(reward(scratch, {{"max_length", "40"}}), dataset.get(), nullptr, runtime.get());
  for (const char* part : {"1 of 7 rows is dropped because a side is longer than max_length 40",
                           "1 of 7 rows has an empty completion",
                           "1 of 7 rows has a chosen completion that is the same as the rejected one"})
    EXPECT_NE(log.find(part), std::string::npos) << log;
  EXPECT_NE(log.find("has no score.weight: a new head is drawn from seed 42"), std::string::npos) << log;
}

}  // namespace
