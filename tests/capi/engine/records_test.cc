// report_to through the C API, and what the process holds after many trainers.
#include <unistd.h>

#include <map>

#include "engine/run.h"

namespace {

using host::Error;
using host::Json;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

std::string train_lm() { return host::read_file(host::golden("data/datasets/train_lm.jsonl")); }

struct RunLog {
  std::vector<std::string> warnings, info;
  static void write(void* data, int32_t level, const char*, const char* text, size_t size) {
    auto* self = static_cast<RunLog*>(data);
    if (level == 2) self->warnings.emplace_back(text, size);
    if (level == 1) self->info.emplace_back(text, size);
  }
  bool informs(std::string_view start) const {
    return std::any_of(info.begin(), info.end(), [&](const auto& line) { return line.starts_with(start); });
  }
};

TEST(Records, EveryWriterHasTheWholeRun) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto rows = host::rows(train_lm());
  const auto runtime = host::runtime();
  RunLog log;
  ASSERT_EQ(trl_runtime_set_log(runtime.get(), RunLog::write, &log, nullptr, nullptr), TRL_OK);
  const auto trainer = host::trainer(
      host::with(host::tiny(scratch / "out"),
                 {{"report_to", "[wandb, tensorboard, csv, jsonl, html]"}, {"save_strategy", "no"}}),
      rows.get(), nullptr, runtime.get());
  ASSERT_EQ(trl_trainer_train(trainer.get(), nullptr, nullptr, nullptr), TRL_OK);
  const Json history = host::state(trainer.get())["log_history"];
  std::istringstream stream(host::read_file(scratch / "out" / "log_history.jsonl"));
  size_t count = 0;
  for (std::string line; std::getline(stream, line); ++count)
    EXPECT_EQ(nlohmann::json::parse(line), nlohmann::json(history[count])) << "record " << count;
  EXPECT_EQ(count, history.size());
  const std::string csv = host::read_file(scratch / "out" / "log_history.csv");
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), static_cast<int64_t>(history.size()) + 1);
  const std::string page = host::read_file(scratch / "out" / "report.html");
  for (const char* text : {"finished", "8 of 8", "Tokens per second", "Gradient norm", "learning_rate"})
    EXPECT_NE(page.find(text), std::string::npos) << text;
  EXPECT_FALSE(std::filesystem::is_empty(scratch / "out" / "runs"));
  EXPECT_EQ(std::count_if(log.warnings.begin(), log.warnings.end(),
                          [](const auto& line) { return line.find("report_to") != std::string::npos; }),
            1);
  for (const char* line :
       {"training begins at step 0 of 8, epoch 0: num_examples 64", "stopped within epoch 1 at step 8 of 8",
        "training ended at step 8 of 8, epoch 0.5: train_runtime"})
    EXPECT_TRUE(log.informs(line)) << line;
}

TEST(Records, AnInterruptedRunHasItsReport) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto rows = host::rows(train_lm());
  const auto trainer =
      host::trainer(host::with(host::tiny(scratch / "out"), {{"report_to", "html"}}), rows.get());
  ASSERT_EQ(trl_trainer_step(trainer.get(), nullptr, nullptr), TRL_OK);
  trl_trainer_cancel(trainer.get());
  ASSERT_EQ(trl_trainer_step(trainer.get(), nullptr, nullptr), TRL_E_CANCELLED);
  EXPECT_NE(host::read_file(scratch / "out" / "report.html").find("cancelled after step 1 of 8"),
            std::string::npos);
}

int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0, resident = 0;
  statm >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

TEST(Memory, RoundsOfTrainersLeaveNothingBehind) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto runtime = host::runtime();
  const std::string text = train_lm();
  int64_t counted = 0, first = 0;
  for (int round = 0; round < 20; ++round) {
    const auto rows = host::rows(text);
    const auto trainer = host::trainer(
        host::with(host::tiny(scratch / "out"),
                   {{"max_steps", "16"}, {"save_strategy", "no"}, {"report_to", "[csv, html]"}}),
        rows.get(), nullptr, runtime.get());
    ASSERT_EQ(trl_trainer_train(trainer.get(), nullptr, nullptr, nullptr), TRL_OK);
    if (round == 0) first = resident_bytes();
  }
  const int64_t last = resident_bytes();
  EXPECT_LE(last, first + first / 20) << first << " bytes after the first round";
  ASSERT_EQ(trl_runtime_memory(runtime.get(), nullptr, &counted, nullptr, nullptr), TRL_OK);
  EXPECT_EQ(counted, 0);
}

// One limit after the other, each a little higher, until a step fits.
TEST(Memory, AtEveryLimitTheTrainerCanBeSavedAndSteppedOn) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto rows = host::rows(train_lm());
  const auto runtime = host::runtime();
  const host::Settings settings = {{"max_steps", "2"}};
  const auto run =
      host::trainer(host::with(host::tiny(scratch / "run"), settings), rows.get(), rows.get(), runtime.get());
  const auto whole = host::trainer(host::with(host::tiny(scratch / "whole"), settings), rows.get());
  Error error;
  ASSERT_EQ(trl_trainer_save(run.get(), (scratch / "start").c_str(), nullptr, error), TRL_OK)
      << error.message();
  const std::string start = host::read_file(scratch / "start" / "model.safetensors");
  int64_t now = 0, refused = 0;
  ASSERT_EQ(trl_runtime_memory(runtime.get(), nullptr, &now, nullptr, nullptr), TRL_OK);
  for (int64_t room = 1024;; room += 48 * 1024) {
    ASSERT_EQ(trl_runtime_set_memory_limit(runtime.get(), now + room, error), TRL_OK) << error.message();
    const trl_status status = trl_trainer_step(run.get(), nullptr, error);
    if (status == TRL_OK) break;
    ASSERT_EQ(status, TRL_E_OUT_OF_MEMORY) << error.message();
    EXPECT_EQ(error.key(), "runtime.host_memory_limit");
    if (refused++ % 4 == 0) {
      ASSERT_EQ(trl_trainer_save(run.get(), (scratch / "start").c_str(), nullptr, error), TRL_OK);
      EXPECT_EQ(host::read_file(scratch / "start" / "model.safetensors"), start);
    }
  }
  EXPECT_GE(refused, 4);
  ASSERT_EQ(trl_runtime_set_memory_limit(runtime.get(), 0, error), TRL_OK);
  EXPECT_EQ(trl_trainer_evaluate(run.get(), nullptr, nullptr, error), TRL_OK) << error.message();
  for (trl_trainer* trainer : {run.get(), whole.get()}) {
    ASSERT_EQ(trl_trainer_train(trainer, nullptr, nullptr, error), TRL_OK) << error.message();
    ASSERT_EQ(trl_trainer_save(trainer, nullptr, nullptr, error), TRL_OK) << error.message();
  }
  EXPECT_EQ(host::read_file(scratch / "run" / "model.safetensors"),
            host::read_file(scratch / "whole" / "model.safetensors"));
}

}  // namespace
