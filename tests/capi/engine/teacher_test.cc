// Models that learn from a teacher: Distillation and GKD.
#include <cmath>

#include "engine/run.h"

namespace {

using host::Error;
using host::Json;
using host::Settings;

#define NEED_MODELS()                            \
  NEED_GOLDEN("models/qwen2/model.safetensors"); \
  NEED_GOLDEN("models/qwen3/model.safetensors")

constexpr const char* kTaughtPrompts = R"({"prompt": "Tell me of the sea:"}
{"prompt": "Describe the castle:"}
{"prompt": "What is a tensor?"}
{"prompt": "Name a planet:"}
)";
constexpr const char* kChats =
    R"({"messages": [{"role": "user", "content": "Name a sea."}, {"role": "assistant", "content": "The North Sea."}]}
{"messages": [{"role": "user", "content": "And a castle?"}, {"role": "assistant", "content": "Neuschwanstein."}]}
{"messages": [{"role": "user", "content": "A planet."}, {"role": "assistant", "content": "Mars, the red one."}]}
{"messages": [{"role": "user", "content": "A tensor?"}, {"role": "assistant", "content": "A table of numbers."}]}
)";

Settings learns(const std::string& output_dir, const char* method, const Settings& more = {}) {
  const char* const length = std::string_view(method) == "gkd" ? "max_new_tokens" : "max_completion_length";
  const Settings own = {{"method", method},
                        {"teacher_model_name_or_path", host::golden("models/qwen3")},
                        {length, "5"},
                        {"max_steps", "6"},
                        {"learning_rate", "0.01"},
                        {"save_strategy", "no"},
                        {"eval_strategy", "no"}};
  return host::with(host::with(host::tiny(output_dir), own), more);
}

struct Pupil {
  Pupil(const Settings& settings, const char* train)
      : rows(host::rows(train)), trainer(host::trainer(settings, rows.get(), nullptr)) {}
  void finish() {
    EXPECT_EQ(trl_trainer_train(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
    EXPECT_EQ(trl_trainer_save(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
  }
  Json records() { return host::state(trainer.get())["log_history"]; }

  Error error;
  host::Dataset rows;
  host::Trainer trainer;
};

TEST(Teacher, TheModelItselfHasNothingToTeach) {
  NEED_MODELS();
  const host::Scratch scratch;
  const Settings itself = {{"teacher_model_name_or_path", host::golden("models/qwen2")},
                           {"learning_rate", "0"}};
  for (const char* beta : {"0", "0.5", "1"}) {
    Pupil run(learns(scratch / beta, "distillation", host::with(itself, {{"beta", beta}})), kTaughtPrompts);
    run.finish();
    for (const Json& record : run.records()) {
      if (!record.contains("loss")) continue;
      EXPECT_LT(std::abs(record["loss"].get<double>()), 1e-6) << record;
    }
  }
}

TEST(Teacher, IsLearnedFrom) {
  NEED_MODELS();
  const host::Scratch scratch;
  for (const auto& [method, rows] : {std::pair("distillation", kTaughtPrompts), std::pair("gkd", kChats)}) {
    Pupil run(learns(scratch / method, method, {{"max_steps", "20"}, {"logging_steps", "1"}}), rows);
    run.finish();
    const Json records = run.records();
    const double first = records[0]["loss"], last = records[19]["loss"];
    EXPECT_GT(first, 0) << method;
    EXPECT_LT(last, 0.7 * first) << method;
    EXPECT_EQ(records[0].contains("entropy"), method == std::string("distillation"));
    EXPECT_EQ(records[0].contains("completions/mean_length"), method == std::string("distillation"));
    EXPECT_EQ(records[0].contains("num_tokens"), method == std::string("distillation"));
    EXPECT_EQ(records[0].contains("step_time"), method == std::string("distillation"));
  }
}

// A recorded run, played again, and one that was stopped after three steps and resumed.
TEST(Teacher, AReplayedAndAResumedRunAreTheSame) {
  NEED_MODELS();
  const Settings accumulates = {{"gradient_accumulation_steps", "2"}, {"per_device_train_batch_size", "1"}};
  for (const auto& [method, rows] : {std::pair("distillation", kTaughtPrompts), std::pair("gkd", kChats)}) {
    const host::Scratch scratch;
    Settings own = accumulates;
    if (method == std::string("gkd")) own.emplace_back("seq_kd", "true");
    const auto weights = [&](const char* folder) {
      return host::read_safetensors(scratch / folder / "model.safetensors");
    };
    const std::string file = scratch / "rollouts.jsonl";
    const auto run = [&](const char* folder, const Settings& more) {
      return Pupil(learns(scratch / folder, method, host::with(own, more)), rows);
    };
    run("recorded", {{"record_rollouts", file}}).finish();
    run("replayed", {{"replay_rollouts", file}}).finish();
    EXPECT_EQ(weights("replayed"), weights("recorded")) << method;
    const Settings saves = {{"save_strategy", "steps"}, {"save_steps", "1"}};
    {
      Pupil part = run("resumed", saves);
      for (int step = 0; step < 3; ++step)
        ASSERT_EQ(trl_trainer_step(part.trainer.get(), nullptr, part.error), TRL_OK) << part.error.message();
    }
    run("resumed", host::with(saves, {{"resume_from_checkpoint", "true"}})).finish();
    EXPECT_EQ(weights("resumed"), weights("recorded")) << method;
  }
}

std::string teacher_refusal(const Settings& settings, const char* train) {
  const host::Dataset rows = host::rows(train);
  const host::Config config = host::config(settings);
  Error error;
  trl_trainer* made = nullptr;
  trl_status status = trl_trainer_create(nullptr, config.get(), rows.get(), nullptr, &made, error);
  const host::Trainer trainer(made);
  if (status == TRL_OK) status = trl_trainer_train(made, nullptr, nullptr, error);
  EXPECT_NE(status, TRL_OK);
  return error.message();
}

int32_t keep_completions(void* shown, int32_t, const trl_metrics* metrics) {
  if (const char* const text = trl_metrics_text(metrics, "completions"))
    static_cast<std::vector<Json>*>(shown)->push_back(host::parse(text));
  return 0;
}

// log_completions has the columns of TRL's DistillationTrainer, which knows no rewards.
TEST(Teacher, CompletionsHaveNoAdvantages) {
  NEED_MODELS();
  const host::Scratch scratch;
  Pupil run(learns(scratch / "out", "distillation",
                   {{"log_completions", "true"}, {"max_steps", "1"}, {"logging_steps", "1"}}),
            kTaughtPrompts);
  std::vector<Json> shown;
  ASSERT_EQ(trl_trainer_train(run.trainer.get(), keep_completions, &shown, run.error), TRL_OK)
      << run.error.message();
  ASSERT_EQ(shown.size(), 1u);
  ASSERT_FALSE(shown[0]["rows"].empty());
  for (const Json& row : shown[0]["rows"]) {
    std::vector<std::string> names;
    for (const auto& [name, unused] : row.items()) names.push_back(name);
    EXPECT_EQ(names, (std::vector<std::string>{"step", "prompt", "completion"}));
  }
}

TEST(Teacher, IsRefusedIfItCannotTeach) {
  NEED_MODELS();
  const host::Scratch scratch;
  const auto said = [&](const char* method, const Settings& more, const char* rows) {
    return teacher_refusal(learns(scratch / "out", method, more), rows);
  };
  const auto teacher = [](const std::string& path) { return Settings{{"teacher_model_name_or_path", path}}; };
  EXPECT_NE(said("distillation", teacher("null"), kTaughtPrompts).find("needs a teacher"), std::string::npos);
  EXPECT_NE(said("gkd", teacher(scratch / "none"), kChats).find("does not exist"), std::string::npos);
  EXPECT_NE(said("gkd", teacher(host::golden("models/llama")), kChats).find("vocabulary"), std::string::npos);
  EXPECT_NE(said("gkd", {{"max_length", "8"}}, kChats).find("leaves no token of the prompt"),
            std::string::npos);
  EXPECT_NE(said("gkd", {}, kTaughtPrompts).find("'messages'"), std::string::npos);
}

TEST(Teacher, GivesNoRewards) {
  NEED_MODELS();
  const host::Scratch scratch;
  Pupil run(learns(scratch / "out", "distillation"), kTaughtPrompts);
  const auto reward = [](void*, trl_rollout*) -> int32_t { return TRL_OK; };
  ASSERT_EQ(trl_trainer_add_reward(run.trainer.get(), "points", reward, nullptr, nullptr, run.error), TRL_OK);
  EXPECT_NE(trl_trainer_train(run.trainer.get(), nullptr, nullptr, run.error), TRL_OK);
  EXPECT_NE(std::string(run.error.message()).find("takes no rewards"), std::string::npos);
}

}  // namespace
