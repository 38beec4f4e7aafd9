// Rows that are streamed, that turn out bad during the run, and that are kept for the next one.
#include <filesystem>
#include <utility>

#include "engine/run.h"

namespace {

using host::Error;
using host::Json;
using host::with;

std::string lm_rows() { return host::golden("data/datasets/train_lm.jsonl"); }

std::vector<double> trained_losses(trl_trainer* trainer) {
  std::vector<double> out;
  Error error;
  EXPECT_EQ(trl_trainer_train(trainer, nullptr, nullptr, error), TRL_OK) << error.message();
  const Json state = host::state(trainer);
  for (const Json& record : state["log_history"]) {
    if (record.contains("loss")) out.push_back(record["loss"]);
  }
  return out;
}

TEST(Streaming, TrainsAsTheSameRowsInTheirOrder) {
  NEED_GOLDEN("models/qwen2");
  const host::Scratch scratch;
  const auto rows = host::open_rows(lm_rows());
  for (const host::Settings& more :
       {host::Settings{{"max_steps", "40"}, {"save_strategy", "no"}},  // beyond the end of the 64 rows
        host::Settings{{"packing", "true"},
                       {"max_length", "64"},
                       {"per_device_train_batch_size", "2"},
                       {"save_strategy", "no"}}}) {
    const auto settings = with(host::tiny(scratch / "out"), more);
    const auto want = trained_losses(host::trainer(settings, rows.get()).get());
    EXPECT_FALSE(want.empty());
    EXPECT_EQ(
        trained_losses(host::trainer(with(settings, {{"dataset_streaming", "true"}}), rows.get()).get()),
        want);
  }
}

TEST(Streaming, TrainsOnPreferencesAsOnTheSameRowsInTheirOrder) {
  NEED_GOLDEN("models/qwen2");
  const host::Scratch scratch;
  const auto rows = host::open_rows(host::golden("data/datasets/train_pref.jsonl"));
  for (const char* method : {"dpo", "reward", "kto"}) {
    const auto settings = with(host::tiny(scratch / "out"), {{"method", method},
                                                             {"train_sampling_strategy", "sequential"},
                                                             {"max_steps", "20"},
                                                             {"save_strategy", "no"}});
    const auto want = trained_losses(host::trainer(settings, rows.get()).get());
    EXPECT_EQ(want.size(), 20u);
    EXPECT_EQ(
        trained_losses(host::trainer(with(settings, {{"dataset_streaming", "true"}}), rows.get()).get()),
        want)
        << method;
  }
}

TEST(Streaming, GoesOnFromACheckpoint) {
  NEED_GOLDEN("models/qwen2");
  const host::Scratch scratch;
  const auto rows = host::open_rows(lm_rows());
  std::vector<double> unshuffled;
  for (const char* shuffle : {"false", "true"}) {
    const auto out = scratch / shuffle;
    const auto settings = with(host::tiny(out), {{"dataset_streaming", "true"},
                                                 {"shuffle_dataset", shuffle},
                                                 {"save_steps", "5"},
                                                 {"packing", "true"},
                                                 {"packing_strategy", "wrapped"},
                                                 {"max_length", "48"},
                                                 {"max_steps", "12"}});
    const auto want = trained_losses(host::trainer(settings, rows.get()).get());
    EXPECT_NE(want, std::exchange(unshuffled, want));
    const auto resumed = with(settings, {{"resume_from_checkpoint", (out / "checkpoint-5").string()}});
    EXPECT_EQ(trained_losses(host::trainer(resumed, rows.get()).get()), want);
  }
}

TEST(Streaming, NeedsAnEnd) {
  NEED_GOLDEN("models/qwen2");
  const host::Scratch scratch;
  const auto rows = host::open_rows(lm_rows());
  trl_trainer* made = nullptr;
  Error error;
  const auto settings =
      with(host::tiny(scratch / "out"), {{"dataset_streaming", "true"}, {"max_steps", "-1"}});
  EXPECT_EQ(trl_trainer_create(nullptr, host::config(settings).get(), rows.get(), nullptr, &made, error),
            TRL_E_INVALID_CONFIG);
  EXPECT_EQ(error.key(), "max_steps");
}

// The row is met in the second block of rows, while training goes on: what was trained can be saved and gone
// on from.
TEST(BadRow, DuringTheRunIsTheErrorItWouldBeBefore) {
  NEED_GOLDEN("models/qwen2");
  const host::Scratch scratch;
  const std::string path = (scratch / "rows.jsonl").string();
  std::string text;
  for (int i = 0; i < 1100; ++i)
    text += R"({"text": "one two"})"
            "\n";
  host::write_file(path, text + "{\"text\": 7}\n");
  const auto rows = host::open_rows(path);
  auto settings = with(host::tiny(scratch / "out"), {{"max_steps", "100"},
                                                     {"per_device_train_batch_size", "20"},
                                                     {"dataset_streaming", "true"},
                                                     {"logging_steps", "1000"}});
  auto trainer = host::trainer(settings, rows.get());
  Error error;
  trl_status status = TRL_OK;
  int64_t steps = 0;
  while (status == TRL_OK) {
    status = trl_trainer_step(trainer.get(), nullptr, error);
    steps += status == TRL_OK ? 1 : 0;
  }
  EXPECT_EQ(status, TRL_E_FORMAT);
  EXPECT_EQ(steps, 50);
  EXPECT_NE(error.message().find("rows.jsonl:1101: column 'text' is a number"), std::string::npos)
      << error.message();
  const auto save = host::config({{"save.kind", "checkpoint"}});
  EXPECT_EQ(trl_trainer_save(trainer.get(), nullptr, save.get(), error), TRL_OK) << error.message();
  EXPECT_TRUE(std::filesystem::exists(scratch / "out" / ("checkpoint-" + std::to_string(steps))));
}

TEST(Cache, KeepsPreparedRowsForTheNextRun) {
  NEED_GOLDEN("models/qwen2");
  const host::Scratch scratch;
  const auto rows = host::open_rows(lm_rows());
  const auto settings =
      with(host::tiny(scratch / "out"), {{"dataset_cache_dir", (scratch / "cache").string()},
                                         {"save_strategy", "no"},
                                         {"packing", "true"},
                                         {"max_length", "64"}});
  const auto want = trained_losses(host::trainer(settings, rows.get()).get());
  const auto files = [&] {
    return std::distance(std::filesystem::directory_iterator(scratch / "cache"), {});
  };
  EXPECT_EQ(files(), 1);
  EXPECT_EQ(trained_losses(host::trainer(settings, rows.get()).get()), want);
  EXPECT_EQ(files(), 1);
}

}  // namespace
