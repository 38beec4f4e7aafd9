// Files of completions: whether they last for a run, and of which prompts they are.
#include "run/rollout/replay.h"

#include <gtest/gtest.h>

#include "base/files/files.h"
#include "data/preference_shop.h"
#include "run/rollout/replayed_run.h"
#include "support/error_of.h"
#include "support/letter_tokenizer.h"
#include "support/scratch.h"

namespace trl::run {
namespace {

std::string lines(const char* mode, int64_t generation, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    base::Json line = {{"generation", generation}, {"row", i}, {"completion_ids", {5}}};
    if (mode != nullptr) line["mode"] = mode;
    text += line.dump() + "\n";
  }
  return text;
}

// A generation for each two steps, and an evaluation after each third one.
class Ahead final : public engine::RunAhead {
 public:
  explicit Ahead(int64_t max_steps, bool evaluates = false) : max_steps_(max_steps), evaluates_(evaluates) {}
  int64_t step() const noexcept override { return 0; }
  int64_t max_steps() const noexcept override { return max_steps_; }
  engine::RolloutNeeds needs(int64_t max_steps) const noexcept override {
    return {.generations = (max_steps + 1) / 2, .evaluations = evaluates_ ? max_steps / 3 : 0};
  }

 private:
  const int64_t max_steps_;
  const bool evaluates_;
};

class ReplayFile : public testing::Test {
 protected:
  // Prompts of `rows` rows, two in a generation and each with two completions; the last one may have fewer.
  std::shared_ptr<Prompts> prompts(int rows) {
    std::string text;
    for (int i = 0; i < rows; ++i)
      text += R"({"prompt":"ab"})"
              "\n";
    data::OrderOptions order;
    order.batch_size = 2;
    order.sampling = data::Sampling::sequential;
    return std::make_shared<Prompts>(data::prepare_prompts(test::PreferenceShop::table(text), shop_.context),
                                     sampled_prompts(order, 2), nullptr);
  }
  Replay replay(const std::string& text) const {
    base::write_file(scratch_ / "r.jsonl", text);
    return Replay(scratch_ / "r.jsonl");
  }
  std::string refusal_of_line(const std::string& line) const {
    return test::error_of([&] { replay(line + "\n"); }).second;
  }
  static std::string refusal(const ReplayedRun& run, const Ahead& ahead) {
    return test::error_of([&] { check_replay(run, ahead); }).second;
  }

  const test::Scratch scratch_;
  test::PreferenceShop shop_{std::make_unique<test::LetterTokenizer>(
      "{% for m in messages %}{{ m['content'] }}{{ eos_token }}{% endfor %}")};
};

// Generations of 4, 4 and 2 lines, epoch after epoch.
TEST_F(ReplayFile, LastsForItsRun) {
  const auto train = prompts(5);
  train->start(0, 0);
  const Replay whole = replay(lines("train", 0, 4) + lines("train", 1, 4) + lines("train", 2, 2));
  const ReplayedRun run{whole, *train};
  EXPECT_EQ(refusal(run, Ahead(6)), "");
  EXPECT_EQ(refusal(run, Ahead(7)),
            "replay_rollouts: " + whole.path() +
                ": it has 10 lines of training (3 generations), and the run needs 14 (4 generations) up to "
                "step 7: give a file of this run, or max_steps: 6");
  EXPECT_TRUE(refusal({.replay = whole, .train = *train, .schedule_needs_length = true}, Ahead(7))
                  .ends_with("or max_steps: 6, which changes the learning rates"));
  const Replay part = replay(lines("train", 0, 3));
  EXPECT_TRUE(refusal({part, *train}, Ahead(1)).ends_with("up to step 1: give a file of this run"));
}

TEST_F(ReplayFile, LastsForEvaluations) {
  const auto train = prompts(4), eval = prompts(3);  // 6 lines for each evaluation
  train->start(0, 0);
  const std::string generations = lines("train", 0, 4) + lines("train", 1, 4) + lines("train", 2, 4);
  const Replay once = replay(generations + lines("eval", 0, 6));
  EXPECT_EQ(refusal({once, *train, eval.get()}, Ahead(5, true)), "");
  EXPECT_NE(refusal({once, *train, eval.get()}, Ahead(6, true))
                .find("it has 12 lines of training (3 generations) and 6 of evaluation, and the run needs 12 "
                      "(3 generations) and 12 of 2 evaluations up to step 6: give a file of this run, or "
                      "max_steps: 5"),
            std::string::npos);
  const Replay unnamed = replay(lines(nullptr, 0, 18));
  EXPECT_EQ(refusal({unnamed, *train, eval.get()}, Ahead(5, true)), "");
  EXPECT_NE(
      refusal({unnamed, *train, eval.get()}, Ahead(6, true)).find("it has 18 lines (3 generations), and"),
      std::string::npos);
}

TEST_F(ReplayFile, HasNoLogProbabilityAboveZero) {
  EXPECT_EQ(refusal_of_line(R"({"completion_ids": [5, 6, 7], "logprobs": [-1, 5e-5, null]})"), "");
  const std::string refused = refusal_of_line(R"({"completion_ids": [5, 6], "logprobs": [-1, 5.0]})");
  EXPECT_TRUE(refused.starts_with("replay_rollouts: ")) << refused;
  EXPECT_TRUE(
      refused.ends_with("r.jsonl:1: logprobs: place 1: 5.0 is not accepted: give a number up to 0, or null"))
      << refused;
}

// A resumed run begins where the file was.
TEST_F(ReplayFile, LastsFromItsPlaceOn) {
  const auto train = prompts(4);
  Replay file = replay(lines("train", 0, 4) + lines("train", 1, 4));
  file.go_to(4);
  train->start(0, 1);
  EXPECT_EQ(file.left().train, 4);
  EXPECT_EQ(refusal({.replay = file, .train = *train, .generation = 1}, Ahead(2)), "");
  EXPECT_NE(refusal({.replay = file, .train = *train, .generation = 1}, Ahead(3))
                .find("from line 5 on it has 4 lines of training (1 generation), and the run needs 8"),
            std::string::npos);
}

TEST_F(ReplayFile, HasTheGenerationsOfTheRun) {
  const auto train = prompts(4);
  train->start(0, 0);
  const Replay larger = replay(lines("train", 0, 4) + lines("train", 1, 8));
  EXPECT_NE(
      refusal({larger, *train}, Ahead(4))
          .find("r.jsonl:5: generation 1 begins here with 8 lines, and the run has 4 completions in its "
                "generation 1"),
      std::string::npos);
  EXPECT_EQ(refusal({larger, *train}, Ahead(2)), "");  // which the run does not reach
  const Replay later = replay(lines("train", 3, 4));
  EXPECT_NE(refusal({later, *train}, Ahead(1)).find("generation 3 begins here with 4 lines"),
            std::string::npos);
}

// Lines that do not say their generation may be of any, so that nothing is known of those that follow.
TEST_F(ReplayFile, MayNameSomeGenerationsAlone) {
  const auto train = prompts(4);
  train->start(0, 0);
  const Replay part = replay(lines("train", 0, 2) + lines(nullptr, 0, 2) + lines("train", 1, 4));
  EXPECT_EQ(refusal({part, *train}, Ahead(4)), "");
  const Replay later = replay(lines(nullptr, 0, 4) + lines("train", 1, 4));
  EXPECT_EQ(refusal({later, *train}, Ahead(4)), "");
  const Replay whole = replay(lines("train", 0, 4) + lines(nullptr, 1, 4));
  EXPECT_EQ(refusal({whole, *train}, Ahead(4)), "");
  const Replay larger = replay(lines("train", 0, 5) + lines(nullptr, 1, 3));
  EXPECT_NE(refusal({larger, *train}, Ahead(4))
                .find("r.jsonl:1: generation 0 begins here with 5 lines, and the run has 4 completions"),
            std::string::npos);
}

// random.seed(42) draws 0.639, 0.025, 0.275, 0.223, 0.736: the rows themselves answer the first and the last.
TEST_F(ReplayFile, NeedsNothingForAnswersOfRows) {
  const auto train = prompts(4);
  train->start(0, 0);
  config::OnlineArguments mixed;
  mixed.lmbda = 0.5;
  const AnswerChoice choice(mixed, 42);
  const Replay file = replay(lines("train", 0, 4) + lines("train", 1, 4));
  const ReplayedRun run{file, *train, nullptr, &choice};
  EXPECT_EQ(refusal(run, Ahead(6)), "");
  EXPECT_NE(refusal(run, Ahead(8)).find("or max_steps: 6"), std::string::npos);
}

TEST_F(ReplayFile, NamesThePromptsOfItsLines) {
  Replay file = replay(R"({"row": 3, "completion_ids": [5]})"
                       "\n"
                       R"({"completion_ids": [5], "row": null})"
                       "\n");
  const std::vector<std::optional<int64_t>> wanted = {3, std::nullopt};
  EXPECT_EQ(file.next_prompts(4), wanted);
  file.go_to(1);
  EXPECT_EQ(file.next_prompts(1).size(), 1u);
  const auto train = prompts(4);
  train->start(0, 0);
  ASSERT_TRUE(train->next());
  const std::vector<size_t> places = {1, 3};
  EXPECT_TRUE(train->give(places, 3));
  EXPECT_EQ(train->rows().row_ids, (std::vector<int64_t>{0, 3, 0, 3}));
  EXPECT_FALSE(train->give(places, 4));
  EXPECT_NE(test::error_of([&] {
              replay(R"({"completion_ids": [5], "resampled": -1})");
            }).second.find("resampled: -1 is not accepted"),
            std::string::npos);
}

TEST_F(ReplayFile, ThatCannotBeReadIsNamedByItsKey) {
  for (const std::string& text : {std::string("{\"completion_ids\":"), std::string("5\n")}) {
    try {
      replay(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.key(), "replay_rollouts");
      EXPECT_TRUE(error.message().starts_with("replay_rollouts: ")) << error.message();
    }
  }
  const auto missing = test::error_of([] { check_replay("/nowhere/r.jsonl"); });
  EXPECT_TRUE(missing.second.starts_with("replay_rollouts: /nowhere/r.jsonl: ")) << missing.second;
  base::write_file(scratch_ / "part-0.jsonl", lines("train", 0, 2));
  EXPECT_NO_THROW(check_replay(scratch_ / "part-*.jsonl"));
}

// As in TRL, where True is 1.
TEST_F(ReplayFile, RewardsMayBeTruthValues) {
  engine::PromptRows rows;
  rows.ids.assign(2, {});
  rows.row_ids.assign(2, 0);
  Replay read = replay(R"({"completion_ids": [5], "rewards": {"right": true, "other": null}})"
                       "\n"
                       R"({"completion_ids": [5], "rewards": {"right": false, "other": 2}})");
  const std::vector<ReplayedRow> taken = read.take("train", 0, rows);
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_EQ(taken[0].rewards[0].second, 1);
  EXPECT_EQ(taken[1].rewards[0].second, 0);
  EXPECT_NE(test::error_of([&] {
              replay(R"({"completion_ids": [5], "rewards": {"right": "yes"}})");
            }).second.find(R"(rewards: right: "yes" is not accepted: give a number of float32 or null)"),
            std::string::npos);
}

}  // namespace
}  // namespace trl::run
