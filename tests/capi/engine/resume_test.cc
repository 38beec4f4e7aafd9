// Checkpoints through the C ABI: saved by hand or by the run, and gone on from.
#include "engine/run.h"

namespace {

using host::Error;
using host::Json;
using host::Settings;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

struct SavedSession {
  explicit SavedSession(const std::string& output, const Settings& more = {})
      : trainer(host::trainer(host::with(host::tiny(output), more), rows.get())) {}
  void train() {
    Error error;
    ASSERT_EQ(trl_trainer_train(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
    ASSERT_EQ(trl_trainer_save(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
  }
  void steps(int count) {
    Error error;
    for (int i = 0; i < count; ++i)
      ASSERT_EQ(trl_trainer_step(trainer.get(), nullptr, error), TRL_OK) << error.message();
  }
  host::Dataset rows = host::open_rows(host::golden("data/datasets/train_lm.jsonl"));
  host::Trainer trainer;
};

std::string weights(const std::filesystem::path& directory) {
  return host::read_file(directory / "model.safetensors");
}

TEST(Resume, ACheckpointByHandGoesOnBitByBit) {
  NEED_MODEL();
  const host::Scratch scratch;
  const Settings no = {{"save_strategy", "no"}};
  SavedSession whole(scratch / "whole", no);
  whole.train();
  SavedSession cut(scratch / "cut", no);
  cut.steps(3);
  trl_trainer_cancel(cut.trainer.get());
  Error error;
  ASSERT_EQ(trl_trainer_step(cut.trainer.get(), nullptr, error), TRL_E_CANCELLED);
  const host::Config options = host::config({{"save.kind", "checkpoint"}});
  ASSERT_EQ(trl_trainer_save(cut.trainer.get(), nullptr, options.get(), error), TRL_OK) << error.message();
  const auto checkpoint = scratch / "cut" / "checkpoint-3";
  ASSERT_TRUE(std::filesystem::exists(checkpoint / "trl_state.json"));
  ASSERT_TRUE(std::filesystem::exists(scratch / "cut" / "trainer_state.json"));
  const auto named = scratch / "named";
  ASSERT_EQ(trl_trainer_save(cut.trainer.get(), named.c_str(), options.get(), error), TRL_OK)
      << error.message();
  EXPECT_EQ(weights(named), weights(checkpoint));

  for (const std::string& from : {checkpoint.string(), named.string(), std::string("true")}) {
    SavedSession again(scratch / "cut", host::with(no, {{"resume_from_checkpoint", from}}));
    EXPECT_EQ(host::state(again.trainer.get())["global_step"], 3);
    again.train();
    EXPECT_EQ(weights(scratch / "cut"), weights(scratch / "whole"));
    const Json got = host::state(again.trainer.get()), want = host::state(whole.trainer.get());
    ASSERT_EQ(got["log_history"].size(), want["log_history"].size());
    for (size_t i = 0; i + 1 < got["log_history"].size(); ++i)
      EXPECT_EQ(got["log_history"][i], want["log_history"][i]);
  }
}

TEST(Resume, ADamagedCheckpointIsRefusedByName) {
  NEED_MODEL();
  const host::Scratch scratch;
  SavedSession run(scratch / "out", {{"max_steps", "2"}});
  run.train();
  const auto file = scratch / "out" / "checkpoint-2" / "optimizer.safetensors";
  std::string bytes = host::read_file(file);
  bytes[bytes.size() / 2] ^= 1;
  host::write_file(file, bytes);
  for (const auto& [from, status] : {std::pair{(scratch / "out" / "checkpoint-2").string(), TRL_E_FORMAT},
                                     std::pair{(scratch / "gone").string(), TRL_E_NOT_FOUND},
                                     std::pair{std::string("true"), TRL_E_INVALID_CONFIG}}) {
    trl_trainer* trainer = nullptr;
    Error error;
    const host::Config config =
        host::config(host::with(host::tiny(scratch / "out"), {{"resume_from_checkpoint", from}}));
    EXPECT_EQ(trl_trainer_create(nullptr, config.get(), run.rows.get(), nullptr, &trainer, error), status)
        << error.message();
    EXPECT_EQ(trainer, nullptr);
    if (status == TRL_E_FORMAT) {
      EXPECT_TRUE(error.names(file.string())) << error.message();
    }
  }
}

}  // namespace
