// A run reads its options once, and opens the model in rehearsal once.
#include "engine/run.h"

namespace {

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

struct WholeLog {
  std::string text;
  static void write(void* data, int32_t, const char*, const char* text, size_t size) {
    static_cast<WholeLog*>(data)->text += std::string(text, size) + "\n";
  }
};

std::string lines_of(const host::Settings& more, bool evaluates) {
  const host::Scratch scratch;
  const auto runtime = host::runtime();
  WholeLog lines;
  EXPECT_EQ(trl_runtime_set_log(runtime.get(), WholeLog::write, &lines, nullptr, nullptr), TRL_OK);
  const host::Dataset rows = host::open_rows(host::golden("data/datasets/train_lm.jsonl"));
  const host::Dataset eval = host::open_rows(host::golden("data/datasets/train_lm.jsonl"));
  host::trainer(host::with(host::tiny(scratch / "out"), more), rows.get(), evaluates ? eval.get() : nullptr,
                runtime.get());
  EXPECT_EQ(trl_runtime_set_log(runtime.get(), nullptr, nullptr, nullptr, nullptr), TRL_OK);
  return lines.text;
}

constexpr const char* kOnce = "the options were read 1 time and the model was opened in rehearsal 1 time";

TEST(Run, ReadsItsOptionsAndOpensTheModelInRehearsalOnce) {
  NEED_MODEL();
  for (const host::Settings& more :
       {host::Settings{}, host::Settings{{"max_steps", "-1"}, {"save_strategy", "epoch"}},
        host::Settings{{"use_peft", "true"}}, host::Settings{{"max_length", "null"}}}) {
    const std::string lines = lines_of(more, false);
    EXPECT_NE(lines.find(kOnce), lines.npos) << (more.empty() ? "" : more.front().first) << "\n" << lines;
  }
  const std::string lines = lines_of({{"eval_strategy", "steps"}, {"eval_steps", "4"}}, true);
  EXPECT_NE(lines.find(kOnce), lines.npos) << lines;
}

// With a budget the ways are compared, each with options of its own.
TEST(Run, RehearsesTheWaysOfABudget) {
  NEED_MODEL();
  const std::string lines = lines_of({{"memory_budget", "4GB"}}, false);
  EXPECT_EQ(lines.find(kOnce), lines.npos);
  EXPECT_NE(lines.find("the options were read "), lines.npos) << lines;
}

}  // namespace
