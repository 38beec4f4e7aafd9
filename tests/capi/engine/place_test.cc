// Where a run writes: told before a row is read, and the same place when the host changes its folder.
#include <unistd.h>

#include "engine/rewarded.h"

namespace {

using host::Error;

constexpr std::string_view kPlacedRows =
    "{\"text\": \"one two three\"}\n{\"text\": \"four five six\"}\n{\"text\": \"seven\"}\n{\"text\": "
    "\"eight\"}\n";

TEST(Place, AnOutputDirectoryThatCannotBeWrittenIsToldBeforeARowIsRead) {
  const host::Scratch scratch;
  host::write_file(scratch / "file", "");
  struct UnreadRows {
    int read = 0;
    static int32_t next(void* data, trl_record*) {
      ++static_cast<UnreadRows*>(data)->read;
      return TRL_END;
    }
    static int32_t rewind(void*) { return 0; }
  } rows;
  trl_dataset* made = nullptr;
  ASSERT_EQ(trl_dataset_from_callback(nullptr, UnreadRows::next, UnreadRows::rewind, &rows, nullptr, nullptr,
                                      &made, nullptr),
            TRL_OK);
  const host::Dataset dataset(made);
  for (const char* strategy : {"no", "steps"}) {
    const auto config = host::config(
        host::with(host::tiny(scratch / "file" / "out", "models/llama"), {{"save_strategy", strategy}}));
    trl_trainer* trainer = nullptr;
    Error error;
    EXPECT_EQ(trl_trainer_create(nullptr, config.get(), dataset.get(), nullptr, &trainer, error), TRL_E_IO);
    EXPECT_EQ(error.key(), "output_dir");
    EXPECT_EQ(error.message(),
              "output_dir: " + (scratch / "file").string() + ": cannot be written into: Not a directory");
    EXPECT_EQ(rows.read, 0);
  }
  EXPECT_EQ(host::read_file(scratch / "file"), "");
}

TEST(Place, StaysWhenTheHostChangesItsFolder) {
  const host::Scratch scratch;
  const auto before = std::filesystem::current_path();
  host::write_file(scratch / "first" / "rows.jsonl", kPlacedRows);
  std::filesystem::create_directories(scratch / "second");
  std::filesystem::current_path(scratch / "first");
  const auto rows = host::open_rows("rows.jsonl");
  std::filesystem::current_path(scratch / "second");
  Error error;
  int64_t count = 0;
  EXPECT_EQ(trl_dataset_get_row_count(rows.get(), &count, error), TRL_OK) << error.message();
  std::filesystem::current_path(scratch / "first");
  const auto trainer =
      host::trainer(host::with(host::tiny("out", "models/llama"), {{"max_steps", "1"}}), rows.get());
  std::filesystem::current_path(scratch / "second");
  EXPECT_EQ(trl_trainer_train(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
  EXPECT_EQ(trl_trainer_save(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
  std::filesystem::current_path(before);
  EXPECT_EQ(count, 4);
  EXPECT_TRUE(std::filesystem::exists(scratch / "first" / "out" / "model.safetensors"));
  EXPECT_TRUE(std::filesystem::exists(scratch / "first" / "out" / "checkpoint-1" / "model.safetensors"));
  EXPECT_TRUE(std::filesystem::is_empty(scratch / "second"));
}

TEST(Place, RecordedCompletionsStayToo) {
  NEED_GOLDEN("models/qwen2/model.safetensors");
  const host::Scratch scratch;
  const auto before = std::filesystem::current_path();
  std::filesystem::create_directories(scratch / "first");
  std::filesystem::create_directories(scratch / "second");
  std::filesystem::current_path(scratch / "first");
  host::Rewarded run(host::grpo("out", {{"record_rollouts", "rollouts.jsonl"}}), host::reward_all);
  std::filesystem::current_path(scratch / "second");
  EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
  std::filesystem::current_path(before);
  EXPECT_TRUE(std::filesystem::exists(scratch / "first" / "rollouts.jsonl"));
  EXPECT_TRUE(std::filesystem::is_empty(scratch / "second"));
}

}  // namespace
