// trl_trainer_check: what a run refuses, told before rows and weights are read.
#include <filesystem>
#include <utility>

#include "engine/run.h"

namespace {

using host::Error;
using host::Settings;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

// Status, and where it is not TRL_OK the key and the message.
struct Answer {
  trl_status status;
  std::string key, message;
};
Answer check(const Settings& settings) {
  const auto runtime = host::runtime();
  Error error;
  const trl_status status = trl_trainer_check(runtime.get(), host::config(settings).get(), error);
  if (status == TRL_OK) return {status, "", ""};
  return {status, error.key(), error.message()};
}

TEST(Check, ARunThatCanBeginIsAccepted) {
  NEED_MODEL();
  const host::Scratch scratch;
  EXPECT_EQ(check(host::tiny(scratch / "out")).status, TRL_OK);
  EXPECT_FALSE(std::filesystem::exists(scratch / "out"));
}

TEST(Check, WarnsOfOptionsAsTheRunDoes) {
  NEED_MODEL();
  const host::Scratch scratch;
  std::vector<std::string> lines;
  const auto runtime = host::runtime();
  const auto keep = [](void* data, int32_t level, const char* component, const char* text, size_t size) {
    if (std::string(component) != "config") return;
    static_cast<std::vector<std::string>*>(data)->push_back(std::to_string(level) + std::string(text, size));
  };
  ASSERT_EQ(trl_runtime_set_log(runtime.get(), keep, &lines, nullptr, nullptr), TRL_OK);
  const Settings settings =
      host::with(host::tiny(scratch / "out"), {{"run_name", "a"}, {"lora_r", "4"}, {"save_strategy", "no"}});
  Error error;
  ASSERT_EQ(trl_trainer_check(runtime.get(), host::config(settings).get(), error), TRL_OK) << error.message();
  const std::vector<std::string> told = std::exchange(lines, {});
  ASSERT_EQ(told.size(), 3u);
  EXPECT_TRUE(told[0].starts_with("2run_name: ")) << told[0];
  EXPECT_EQ(told[1], "2lora_r: it has an effect only with use_peft: true");
  EXPECT_TRUE(told[2].starts_with("1save_strategy no: ")) << told[2];
  const host::Dataset rows = host::open_rows(host::golden("data/datasets/train_lm.jsonl"));
  host::trainer(settings, rows.get(), nullptr, runtime.get());
  EXPECT_EQ(lines, told);
}

TEST(Check, AnotherRunsDirectoryIsRefusedWithTheWaysOut) {
  NEED_MODEL();
  const host::Scratch scratch;
  const std::string out = scratch / "out";
  {
    const host::Dataset rows = host::open_rows(host::golden("data/datasets/train_lm.jsonl"));
    const host::Trainer trainer = host::trainer(
        host::with(host::tiny(out), {{"max_steps", "2"}, {"save_strategy", "steps"}, {"save_steps", "1"}}),
        rows.get());
    Error error;
    ASSERT_EQ(trl_trainer_train(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
  }
  const Settings saves = host::with(host::tiny(out), {{"save_strategy", "epoch"}});
  const Answer refused = check(saves);
  EXPECT_EQ(refused.status, TRL_E_IO);
  EXPECT_EQ(refused.key, "output_dir");
  for (const char* way : {"resume_from_checkpoint auto", "another output_dir", "overwrite_output_dir true"})
    EXPECT_NE(refused.message.find(way), std::string::npos) << refused.message;
  for (const Settings& way :
       {Settings{{"resume_from_checkpoint", "auto"}}, Settings{{"resume_from_checkpoint", "true"}},
        Settings{{"resume_from_checkpoint", out + "/checkpoint-1"}},
        Settings{{"overwrite_output_dir", "true"}}, Settings{{"save_strategy", "no"}}})
    EXPECT_EQ(check(host::with(saves, way)).status, TRL_OK) << way.front().first;
  EXPECT_TRUE(std::filesystem::exists(out + "/checkpoint-2"));
}

TEST(Check, ACheckpointThatIsNotThereIsRefused) {
  NEED_MODEL();
  const host::Scratch scratch;
  const std::string out = scratch / "out";
  const Answer none = check(host::with(host::tiny(out), {{"resume_from_checkpoint", "true"}}));
  EXPECT_EQ(none.status, TRL_E_INVALID_CONFIG);
  EXPECT_EQ(none.key, "resume_from_checkpoint");
  const Answer gone = check(host::with(host::tiny(out), {{"resume_from_checkpoint", out + "/checkpoint-9"}}));
  EXPECT_EQ(gone.status, TRL_E_NOT_FOUND);
  EXPECT_EQ(gone.key, "resume_from_checkpoint");
  EXPECT_EQ(check(host::with(host::tiny(out), {{"resume_from_checkpoint", "auto"}})).status, TRL_OK);
}

TEST(Check, AFileThatCompletionsCannotBeRecordedInIsRefused) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto recording_to = [&](const std::string& file) {
    return check(
        host::with(host::tiny(scratch / "out"),
                   {{"method", "grpo"}, {"num_generations", "2"}, {"record_rollouts", scratch / file}}));
  };
  std::filesystem::create_directory(scratch / "folder");
  EXPECT_EQ(recording_to("folder/rollouts.jsonl").status, TRL_OK);
  EXPECT_TRUE(std::filesystem::is_empty(scratch / "folder"));
  const Answer in_none = recording_to("none/rollouts.jsonl");
  EXPECT_EQ(in_none.status, TRL_E_NOT_FOUND);
  EXPECT_NE(in_none.message.find("none/: the folder does not exist"), std::string::npos) << in_none.message;
  const Answer folder = recording_to("folder");
  EXPECT_EQ(folder.status, TRL_E_IO);
  EXPECT_NE(folder.message.find("folder is a folder; name a file"), std::string::npos) << folder.message;
  for (const Answer& refused : {in_none, folder}) EXPECT_EQ(refused.key, "record_rollouts");
}

TEST(Check, RewardsThatCannotBeGivenAreRefused) {
  NEED_MODEL();
  const host::Scratch scratch;
  std::filesystem::create_directory(scratch / "folder");
  struct Case {
    const char* key;
    std::string value;
    const char* why;
  };
  for (const Case& one :
       {Case{"reward_funcs", "[no_such_reward]", "no_such_reward"},
        Case{"reward_funcs", "['command:']", "the command is missing"},
        Case{"reward_funcs", "[think_format_reward, 'think_format_reward=command:./a']",
             "two rewards are called"},
        Case{"reward_funcs", "['think_format_reward=command:./a', think_format_reward]",
             "two rewards are called"},
        Case{"reward_model_name_or_path", scratch / "none", "does not exist"},
        Case{"reward_model_name_or_path", scratch / "folder", "has no config.json"},
        Case{"reward_model_name_or_path", host::golden("models/qwen2"), "is a language model"},
        Case{"replay_rollouts", scratch / "none.jsonl", "none.jsonl: "}}) {
    const Answer refused = check(host::with(
        host::tiny(scratch / "out"), {{"method", "grpo"}, {"num_generations", "2"}, {one.key, one.value}}));
    EXPECT_EQ(refused.key, one.key) << one.value;
    EXPECT_NE(refused.message.find(one.why), std::string::npos) << refused.message;
  }
}

TEST(Check, AFileThatIsReplayedIsNotRecordedInto) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto before = std::filesystem::current_path();
  host::write_file(scratch / "r.jsonl", "{}\n");
  std::filesystem::create_symlink("r.jsonl", scratch / "link.jsonl");
  std::filesystem::current_path(scratch / "");
  for (const std::string recorded : {"r.jsonl", "./r.jsonl", "link.jsonl"}) {
    const Answer refused = check(host::with(host::tiny("out"), {{"method", "grpo"},
                                                                {"num_generations", "2"},
                                                                {"replay_rollouts", "r.jsonl"},
                                                                {"record_rollouts", recorded}}));
    EXPECT_EQ(refused.status, TRL_E_INVALID_CONFIG) << recorded;
    EXPECT_EQ(refused.key, "record_rollouts") << recorded;
    EXPECT_NE(refused.message.find("is the file of replay_rollouts"), std::string::npos) << refused.message;
  }
  std::filesystem::current_path(before);
  EXPECT_EQ(host::read_file(scratch / "r.jsonl"), "{}\n");
}

}  // namespace
