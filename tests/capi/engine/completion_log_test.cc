// log_completions: files and texts of the completions of each record.
#include <cmath>
#include <map>

#include "engine/rewarded.h"

namespace {

using host::Error;
using host::grpo;
using host::Json;
using host::kPrompts;
using host::reward_all;
using host::Rewarded;
using host::Settings;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

// Texts of a run's records by mode and step.
using Shown = std::map<std::string, std::map<int64_t, Json>>;

int32_t on_event(void* shown, int32_t event, const trl_metrics* metrics) {
  const char* const text = trl_metrics_text(metrics, "completions");
  EXPECT_TRUE(text == nullptr || event == TRL_ON_LOG);
  if (text == nullptr) return 0;
  const Json json = host::parse(text);
  const auto step = static_cast<int64_t>(host::metric(metrics, "step"));
  EXPECT_TRUE((*static_cast<Shown*>(shown))[json["mode"]].emplace(step, json).second) << step;
  return 0;
}

Shown train(Rewarded& run) {
  Shown shown;
  EXPECT_EQ(trl_trainer_train(run.trainer.get(), on_event, &shown, run.error), TRL_OK) << run.error.message();
  return shown;
}

Settings logging(const std::string& output_dir, const Settings& more = {}) {
  return host::with(grpo(output_dir, {{"log_completions", "true"}}), more);
}

std::vector<std::string> names_of(const Json& object) {
  std::vector<std::string> names;
  for (const auto& [name, unused] : object.items()) names.push_back(name);
  return names;
}

// The rows of a file; none in a build with Arrow, whose files are Parquet (io.WriteParquet).
Json file_rows(const std::filesystem::path& folder, const std::string& name) {
  Json rows = Json::array();
  if (std::filesystem::exists(folder / (name + ".parquet"))) return rows;
  std::ifstream lines(folder / (name + ".jsonl"));
  EXPECT_TRUE(lines.good()) << name;
  for (std::string line; std::getline(lines, line);) rows.push_back(host::parse(line));
  return rows;
}

size_t files_in(const std::filesystem::path& folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

TEST(CompletionLog, EachRecordHasAFileWithTrlsColumns) {
  NEED_MODEL();
  const host::Scratch scratch;
  Rewarded run(logging(scratch / "out"), [](trl_rollout* rollout) {
    Error error;
    for (size_t i = 1; i < trl_rollout_count(rollout); ++i)
      EXPECT_EQ(trl_rollout_set_value(rollout, i, "note", "\"n\"", error), TRL_OK) << error.message();
    EXPECT_EQ(trl_rollout_set_value(rollout, 0, "note", "n", error), TRL_E_FORMAT);
    EXPECT_EQ(trl_rollout_set_value(rollout, 9, "note", "1", error), TRL_E_INVALID_ARGUMENT);
    return reward_all(rollout);
  });
  const Shown shown = train(run);
  ASSERT_EQ(shown.size(), 1u);
  ASSERT_EQ(shown.at("train").size(), 3u);  // the summary has nothing new
  EXPECT_EQ(files_in(scratch / "out/completions"), 3u);
  const std::vector<std::string> columns = {"step", "prompt", "completion", "points", "note", "advantage"};
  for (const auto& [step, json] : shown.at("train")) {
    EXPECT_EQ(json["rewards"], Json({"points"}));
    EXPECT_EQ(json["extras"], Json({"note"}));
    ASSERT_EQ(json["rows"].size(), 4u);
    for (size_t i = 0; i < 4; ++i) {
      const Json& row = json["rows"][i];
      const Json& other = json["rows"][i ^ 1];  // of the same prompt
      EXPECT_EQ(names_of(row), columns);
      EXPECT_EQ(row["step"], step);
      EXPECT_EQ(row["prompt"], other["prompt"]);
      EXPECT_EQ(row["note"], i == 0 ? Json() : Json("n"));
      const double half = (row["points"].get<double>() - other["points"].get<double>()) / 2;
      EXPECT_NEAR(row["advantage"].get<double>(), half / (std::abs(half) * std::sqrt(2.0) + 1e-4), 1e-5);
    }
    const Json rows = file_rows(scratch / "out/completions", "completions_0000" + std::to_string(step));
    EXPECT_TRUE(rows.empty() || rows == json["rows"]) << rows.dump();
  }
}

TEST(CompletionLog, AnEvaluationHasAFileOfItsOwn) {
  NEED_MODEL();
  const host::Scratch scratch;
  Rewarded run(
      logging(scratch / "out",
              {{"eval_strategy", "steps"}, {"eval_steps", "3"}, {"per_device_eval_batch_size", "4"}}),
      reward_all, kPrompts, kPrompts);
  const Shown shown = train(run);
  EXPECT_EQ(shown.at("train").size(), 3u);
  ASSERT_EQ(shown.at("eval").size(), 1u);
  const Json& rows = shown.at("eval").at(3)["rows"];  // the last generation_batch_size of eight
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_NE(rows[0]["prompt"], rows[2]["prompt"]);
  EXPECT_NE(rows, shown.at("train").at(3)["rows"]);
  for (const char* name : {"completions_00003", "eval_completions_00003"}) {
    const Json of_file = file_rows(scratch / "out/completions", name);
    const std::string mode = name[0] == 'e' ? "eval" : "train";
    EXPECT_TRUE(of_file.empty() || of_file == shown.at(mode).at(3)["rows"]) << name << of_file.dump();
  }
  EXPECT_EQ(files_in(scratch / "out/completions"), 4u);
}

TEST(CompletionLog, ASubsetIsDrawnAsPythonDraws) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto shown_with = [&](const std::string& name, const Settings& more) {
    Rewarded run(logging(scratch / name, more), reward_all);
    Shown shown = train(run);
    EXPECT_EQ(files_in(scratch / name / "completions"), 3u);
    return shown;
  };
  const Shown all = shown_with("all", {});
  Shown two = shown_with("two", {{"num_completions_to_print", "2"}});
  // random.seed(42); three times random.sample(range(4), 2)
  const std::vector<std::pair<size_t, size_t>> drawn = {{0, 3}, {2, 0}, {1, 0}};
  for (const auto& [step, json] : all.at("train")) {
    const auto& [first, second] = drawn[static_cast<size_t>(step) - 1];
    EXPECT_EQ(two["train"][step]["rows"], Json({json["rows"][first], json["rows"][second]})) << step;
  }
  EXPECT_EQ(shown_with("many", {{"num_completions_to_print", "9"}}), all);
  EXPECT_TRUE(shown_with("none", {{"num_completions_to_print", "0"}}).empty());
  Shown unique = shown_with("unique", {{"log_unique_prompts", "true"}});
  for (const auto& [step, json] : all.at("train"))
    EXPECT_EQ(unique["train"][step]["rows"], Json({json["rows"][0], json["rows"][2]})) << step;
}

// A run that was stopped within a generation goes on with its completions, and with the draws.
TEST(CompletionLog, IsTheSameAfterAResume) {
  NEED_MODEL();
  const host::Scratch scratch;
  const auto settings = [&](const char* folder, const Settings& more) {
    return host::with(logging(scratch / folder, {{"num_completions_to_print", "2"},
                                                 {"num_iterations", "3"},
                                                 {"max_steps", "6"},
                                                 {"save_strategy", "steps"},
                                                 {"save_steps", "1"}}),
                      more);
  };
  const auto noting = [](trl_rollout* rollout) {
    Error error;
    EXPECT_EQ(trl_rollout_set_value(rollout, 1, "note", "{\"of\": [1, 0.1]}", error), TRL_OK);
    return reward_all(rollout);
  };
  Rewarded whole(settings("whole", {}), noting);
  const Shown all = train(whole);
  ASSERT_EQ(all.at("train").size(), 6u);
  Rewarded part(settings("resumed", {}), noting);
  for (int step = 0; step < 4; ++step)
    ASSERT_EQ(trl_trainer_step(part.trainer.get(), nullptr, part.error), TRL_OK) << part.error.message();
  part.trainer.reset();
  std::filesystem::remove_all(scratch / "resumed/completions");
  Rewarded rest(settings("resumed", {{"resume_from_checkpoint", "true"}}), noting);
  const Shown shown = train(rest);
  ASSERT_EQ(shown.at("train").size(), 2u);
  for (const int64_t step : {5, 6}) EXPECT_EQ(shown.at("train").at(step), all.at("train").at(step)) << step;
  EXPECT_EQ(files_in(scratch / "resumed/completions"), 2u);
  EXPECT_EQ(file_rows(scratch / "resumed/completions", "completions_00005"),
            file_rows(scratch / "whole/completions", "completions_00005"));
}

TEST(CompletionLog, ConversationsStayMessages) {
  NEED_MODEL();
  const host::Scratch scratch;
  constexpr const char* kTalks = R"({"prompt": [{"role": "user", "content": "Tell me of the sea:"}]}
{"prompt": [{"role": "user", "content": "Name a planet:"}]}
)";
  Rewarded run(logging(scratch / "out", {{"max_steps", "1"}}), reward_all, kTalks);
  const Json row = train(run).at("train").at(1)["rows"][0];
  EXPECT_TRUE(row["prompt"][0]["content"].is_string());
  ASSERT_EQ(row["completion"].size(), 1u);
  EXPECT_EQ(row["completion"][0]["role"], "assistant");
}

TEST(CompletionLog, AFileThatCannotBeWrittenCostsAWarning) {
  NEED_MODEL();
  const host::Scratch scratch;
  host::write_file(scratch / "out/completions", "in the way");
  Rewarded run(logging(scratch / "out"), reward_all);
  EXPECT_EQ(train(run).at("train").size(), 3u);
}

TEST(CompletionLog, TheReportHasTheBestAndTheWorst) {
  NEED_MODEL();
  const host::Scratch scratch;
  host::write_file(scratch / "out/last_completions.jsonl", "{\"of\": \"another run\"}");
  Rewarded run(grpo(scratch / "out", {{"report_to", "html"}, {"reward_weights", "[2]"}}), reward_all);
  EXPECT_TRUE(train(run).empty());
  const std::string page = host::read_file(scratch / "out/report.html");
  EXPECT_NE(page.find("Best and worst completions of step 3"), std::string::npos);
  EXPECT_NE(page.find("<h2>Reward points</h2>"), std::string::npos);
  std::ifstream lines(scratch / "out/last_completions.jsonl");
  double sum = 0;
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) sum += host::parse(line)["sum"].get<double>();
  EXPECT_EQ(count, 4);
  EXPECT_NEAR(sum / 4, run.last()[2]["reward"].get<double>(), 1e-6);
}

TEST(CompletionLog, WithoutTheKeyThereIsNone) {
  NEED_MODEL();
  const host::Scratch scratch;
  Rewarded run(grpo(scratch / "out"), reward_all);
  EXPECT_TRUE(train(run).empty());
  EXPECT_FALSE(std::filesystem::exists(scratch / "out/completions"));
}

}  // namespace
