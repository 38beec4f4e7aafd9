// Which names the records of a run have, and what num_input_tokens_seen counts, beside the log of SFTTrainer
// 1.16 for the same rows (tests/golden/records); and evaluations for which no row is left.
#include "engine/run.h"

namespace {

using host::Error;
using host::Json;

#define NEED_QWEN2() NEED_GOLDEN("models/qwen2/model.safetensors")

// Row i holds 1 + 3 (i + first) mod 9 words.
std::string counting_rows(int count, int first = 0) {
  constexpr const char* kWords[] = {"one", "two", "three", "four", "five", "six", "seven", "eight", "nine"};
  std::string lines;
  for (int i = 0; i < count; ++i) {
    std::string text;
    for (int word = 0; word < 1 + (i * 3 + first) % 9; ++word)
      text += (word == 0 ? "" : " ") + std::string(kWords[word]);
    lines += "{\"text\": \"" + text + "\"}\n";
  }
  return lines;
}

std::string completions(int count, int prompts) {
  std::string prompt;
  for (int i = 0; i < prompts * 10; ++i) prompt += i == 0 ? "one" : " two";
  std::string lines;
  for (int i = 0; i < count; ++i) lines += R"({"prompt": ")" + prompt + R"(", "completion": " two"})" + "\n";
  return lines;
}

struct Warnings {
  std::vector<std::string> lines;
  static void write(void* data, int32_t level, const char*, const char* text, size_t size) {
    if (level == 2) static_cast<Warnings*>(data)->lines.emplace_back(text, size);
  }
  bool has(std::string_view part) const {
    return std::any_of(lines.begin(), lines.end(),
                       [&](const auto& line) { return line.find(part) != line.npos; });
  }
};

// Without shared_tokens, which TRL does not have.
std::vector<std::string> metric_names(const Json& record) {
  std::vector<std::string> names;
  for (const auto& [name, value] : record.items()) {
    if (name != "step" && name != "epoch" && name != "shared_tokens" && !name.starts_with("silent_rows"))
      names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

void expect_records(const Json& state, const Json& want) {
  EXPECT_EQ(state["num_input_tokens_seen"], want["num_input_tokens_seen"]);
  const Json& history = state["log_history"];
  ASSERT_EQ(history.size(), want["records"].size());
  for (size_t i = 0; i < history.size(); ++i) {
    const Json& record = want["records"][i];
    EXPECT_EQ(history[i]["step"], record["step"]);
    EXPECT_EQ(metric_names(history[i]), record["names"].get<std::vector<std::string>>());
    EXPECT_EQ(history[i].value("num_input_tokens_seen", -1), record.value("num_input_tokens_seen", -1));
  }
}

TEST(RecordedLogs, HaveTrainersNamesAndTokens) {
  NEED_QWEN2();
  const Json cases = host::golden_json("records/cases.json");
  EXPECT_EQ(cases.size(), 8u);
  const auto rows = host::rows(counting_rows(14));
  for (const Json& test : cases) {
    SCOPED_TRACE(test["name"].get<std::string>());
    const host::Scratch scratch;
    host::Settings settings = {{"save_strategy", "no"}, {"max_steps", "-1"}};
    for (const auto& [key, value] : test["options"].items())
      settings.emplace_back(key, value.get<std::string>());
    settings = host::with(host::tiny(scratch / "out"), settings);
    const bool drops = test["name"] == "drop_last";
    const int evaluated = test["evaluation_rows"];
    const auto eval = host::rows(counting_rows(std::max(1, evaluated), drops ? 1 : 0));
    auto trainer = host::trainer(settings, rows.get(), evaluated > 0 ? eval.get() : nullptr);
    Error error;
    ASSERT_EQ(trl_trainer_train(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
    if (test.contains("resumed_from")) {
      const std::string from = scratch / "out/checkpoint-3";
      EXPECT_EQ(host::parse(host::read_file(from + "/trainer_state.json"))["num_input_tokens_seen"],
                test["records"][2]["num_input_tokens_seen"]);
      trainer = host::trainer(host::with(settings, {{"resume_from_checkpoint", from}}), rows.get());
      ASSERT_EQ(trl_trainer_train(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
    }
    expect_records(host::state(trainer.get()), test);
  }
}

TEST(RecordedLogs, AnEvaluationWithoutRowsHasItsTimeAlone) {
  NEED_QWEN2();
  struct Case {
    std::string train, eval, warning;
    host::Settings more;
    std::vector<double> losses;  // of SFTTrainer
  };
  const Case cases[] = {
      {counting_rows(14),
       counting_rows(3, 1),
       "dataloader_drop_last: the 3 evaluation rows are fewer than one batch of 8",
       {{"dataloader_drop_last", "true"}},
       {6.209618091583252, 5.155816078186035, 4.760868549346924}},
      {completions(14, 1),
       completions(3, 9),
       "nothing is left of the evaluation rows",
       {{"max_length", "40"}},
       {}},
  };
  for (const Case& test : cases) {
    const host::Scratch scratch;
    const auto runtime = host::runtime();
    Warnings warnings;
    ASSERT_EQ(trl_runtime_set_log(runtime.get(), Warnings::write, &warnings, nullptr, nullptr), TRL_OK);
    const auto train = host::rows(test.train), eval = host::rows(test.eval);
    const auto trainer = host::trainer(
        host::with(host::with(host::tiny(scratch / "out"),
                              {{"max_steps", "3"}, {"eval_strategy", "steps"}, {"eval_steps", "2"}}),
                   test.more),
        train.get(), eval.get(), runtime.get());
    EXPECT_TRUE(warnings.has(test.warning));
    Error error;
    ASSERT_EQ(trl_trainer_train(trainer.get(), nullptr, nullptr, error), TRL_OK) << error.message();
    std::vector<double> losses;
    int evaluations = 0;
    const Json state = host::state(trainer.get());
    for (const Json& record : state["log_history"]) {
      if (record.contains("loss")) losses.push_back(record["loss"]);
      if (!record.contains("eval_runtime")) continue;
      ++evaluations;
      EXPECT_EQ(metric_names(record), (std::vector<std::string>{"eval_runtime", "eval_samples_per_second",
                                                                "eval_steps_per_second"}));
    }
    EXPECT_EQ(evaluations, 2);
    EXPECT_EQ(losses.size(), 3u);
    for (size_t i = 0; i < test.losses.size(); ++i)
      EXPECT_TRUE(host::close(losses[i], test.losses[i], host::limits::metric)) << losses[i];
  }
}

TEST(RecordedLogs, ABestModelNeedsAMetric) {
  NEED_QWEN2();
  const host::Scratch scratch;
  const auto train = host::rows(counting_rows(14)), eval = host::rows(counting_rows(3));
  const auto trainer =
      host::trainer(host::with(host::tiny(scratch / "out"), {{"max_steps", "4"},
                                                             {"dataloader_drop_last", "true"},
                                                             {"eval_strategy", "steps"},
                                                             {"eval_steps", "2"},
                                                             {"save_steps", "2"},
                                                             {"load_best_model_at_end", "true"}}),
                    train.get(), eval.get());
  Error error;
  EXPECT_EQ(trl_trainer_train(trainer.get(), nullptr, nullptr, error), TRL_E_INVALID_CONFIG);
  EXPECT_EQ(std::string(error.message()),
            "metric_for_best_model: the evaluation has no eval_loss; it has eval_runtime, "
            "eval_samples_per_second, eval_steps_per_second, epoch, step");
}

}  // namespace
