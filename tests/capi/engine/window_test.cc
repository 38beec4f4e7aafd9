// The micro-batches of a window are computed together, without the rows that have nothing to teach.
#include <array>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "engine/rewarded.h"

namespace {

using host::Error;
using host::Json;
using host::Rewarded;
using host::row_of;
using host::Settings;

#define NEED_MODEL() NEED_GOLDEN("models/qwen2/model.safetensors")

// Two groups of four in a generation: the first has one reward, and two of the second have its mean.
int32_t reward_half(trl_rollout* rollout) {
  Error error;
  for (size_t i = 0; i < trl_rollout_count(rollout); ++i) {
    const std::array<double, 8> points = {1, 1, 1, 1, 0, 1, 1, 2};
    EXPECT_EQ(trl_rollout_set_reward(rollout, i, points.at(i), error), TRL_OK);
  }
  return TRL_OK;
}

// Steps of a window of four micro-batches of two rows, whose completions are those of the file if it exists.
struct Run {
  std::vector<Json> records;
  double silent = 0, shared = 0;
};

Run windowed_run(const std::string& folder, const std::string& file, const Settings& more) {
  const Settings own = {{"gradient_accumulation_steps", "4"},
                        {"per_device_train_batch_size", "2"},
                        {"num_generations", "4"},
                        {"max_steps", "4"},
                        {"num_iterations", "2"}};
  const bool replays = std::filesystem::exists(file);
  Settings settings = host::with(host::grpo(folder, own), more);
  settings.emplace_back(replays ? "replay_rollouts" : "record_rollouts", file);
  Rewarded run(settings, reward_half);
  EXPECT_EQ(run.train(), TRL_OK) << run.error.message();
  Run out;
  for (const Json& record : run.last()) {
    out.records.push_back(record);
    out.silent += record.value("silent_rows", 0.0);
    out.shared += record.contains("loss") ? record.value("shared_tokens", 0.0) : 0.0;
  }
  return out;
}

// The gap to log-probabilities of generation is of rounding alone.
void expect_near(const Run& want, const Run& got) {
  for (size_t i = 0; i < want.records.size(); ++i) {
    for (const auto& [name, value] : want.records[i].items()) {
      if (!value.is_number() || name.ends_with("_runtime") || name.ends_with("_per_second") ||
          name.starts_with("silent_rows") || name.starts_with("sampling/") || name == "shared_tokens" ||
          name == "step_time")
        continue;
      ASSERT_TRUE(got.records[i].contains(name)) << name;
      EXPECT_NEAR(got.records[i][name].get<double>(), value.get<double>(),
                  2e-4 * std::abs(value.get<double>()) + 2e-6)
          << "record " << i << ": " << name;
    }
  }
}

void expect_the_same(const Settings& more) {
  const host::Scratch scratch;
  const std::string file = scratch / "rollouts.jsonl";
  const auto run = [&](const char* name, const Settings& own) {
    return windowed_run(scratch / name, file, host::with(more, own));
  };
  const Run apart = run("apart", {{"share_prefix", "false"}, {"skip_silent_rows", "false"}});
  EXPECT_EQ(apart.silent, 0);
  EXPECT_EQ(apart.shared, 0);
  const Run together = run("together", {{"share_prefix", "true"}, {"skip_silent_rows", "false"}});
  EXPECT_GT(together.shared, 0);
  expect_near(apart, together);
  const Run skipping = run("skipping", {{"share_prefix", "false"}});
  EXPECT_EQ(skipping.silent, 2.0 + 1.0);  // half the rows, and of the second group the two in the middle
  EXPECT_EQ(skipping.shared, 0);
  expect_near(apart, skipping);
  const Run both = run("both", {{"share_prefix", "true"}});
  EXPECT_GT(both.shared, 0);
  expect_near(apart, both);
}

TEST(Windows, AreComputedTogetherWithTheSameNumbers) {
  NEED_MODEL();
  expect_the_same({});
}

TEST(Windows, WithSequenceRatios) {
  NEED_MODEL();
  expect_the_same({{"importance_sampling_level", "sequence"}, {"loss_type", "grpo"}});
}

TEST(Windows, WithBnpo) {
  NEED_MODEL();
  expect_the_same({{"loss_type", "bnpo"}});
}

TEST(Windows, InPartsWithAnAdapterAndRecomputation) {
  NEED_MODEL();
  expect_the_same({{"max_tokens_per_pass", "40"},
                   {"use_peft", "true"},
                   {"lora_dropout", "0"},
                   {"gradient_checkpointing", "true"}});
}

TEST(Windows, OfRloo) {
  NEED_MODEL();
  expect_the_same({{"method", "rloo"}, {"beta", "0"}});
}

using Weights = std::map<std::string, host::Tensor>;

// Returns the length of the difference between all weights.
double distance(const Weights& from, const Weights& to) {
  double squares = 0;
  for (const auto& [name, tensor] : to) {
    const std::vector<float>& others = from.at(name).values;
    for (size_t i = 0; i < others.size(); ++i) {
      const double between = static_cast<double>(tensor.values.at(i)) - static_cast<double>(others[i]);
      squares += between * between;
    }
  }
  return std::sqrt(squares);
}

// Both runs learn from the same completions. Sums of a few thousand float32 numbers in another order differ
// by some 1e-6 of their size; if all of 50 updates err to the same side, and a later one by more because it
// begins elsewhere, the weights differ by well below 1e-3 of the way that they went. SGD keeps an error in
// proportion: Adam would make a whole step of a gradient that is nothing but rounding.
TEST(Windows, ManyStepsWithoutSilentRowsAreTheSame) {
  NEED_MODEL();
  const host::Scratch scratch;
  const char* const asked = std::getenv("TRL_TEST_SILENT_STEPS");
  const Settings own = {{"gradient_accumulation_steps", "4"},
                        {"per_device_train_batch_size", "2"},
                        {"num_generations", "4"},
                        {"max_steps", asked != nullptr ? asked : "4"},
                        {"optim", "sgd"},
                        {"learning_rate", "0.05"}};
  const std::string file = scratch / "rollouts.jsonl";
  const auto run = [&](const char* skips, const char* key, Json& records) {
    Rewarded trained(host::grpo(scratch / skips, host::with(own, {{"skip_silent_rows", skips}, {key, file}})),
                     reward_half);
    EXPECT_EQ(trained.train(), TRL_OK) << trained.error.message();
    EXPECT_EQ(trl_trainer_save(trained.trainer.get(), nullptr, nullptr, trained.error), TRL_OK);
    records = trained.last();
    return host::read_safetensors(scratch / skips / "model.safetensors");
  };
  Json all, some;
  const Weights computed = run("false", "record_rollouts", all),
                skipped = run("true", "replay_rollouts", some);
  const Weights before = host::read_safetensors(host::golden("models/qwen2/model.safetensors"));
  const double way = distance(before, computed);
  EXPECT_GT(way, 1e-4);
  EXPECT_LE(distance(computed, skipped), 1e-3 * way);
  ASSERT_EQ(all.size(), some.size());
  double silent = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    if (!all[i].contains("loss")) continue;
    silent += some[i]["silent_rows"].get<double>();
    for (const char* name : {"loss", "grad_norm", "entropy"})
      EXPECT_NEAR(some[i][name].get<double>(), all[i][name].get<double>(),
                  1e-3 * std::abs(all[i][name].get<double>()) + 1e-6)
          << "record " << i << ": " << name;
  }
  EXPECT_EQ(silent, 0.75 * (asked != nullptr ? std::atoi(asked) : 4));
}

// A group that is a little larger than a micro-batch stays whole, so that its prompt is computed once.
TEST(Windows, GroupsStayWhole) {
  NEED_MODEL();
  const host::Scratch scratch;
  const std::string file = scratch / "rollouts.jsonl";
  const auto run = windowed_run(scratch / "out", file,
                                {{"per_device_train_batch_size", "1"},
                                 {"gradient_accumulation_steps", "4"},
                                 {"max_completion_length", "1"},
                                 {"num_iterations", "1"},
                                 {"skip_silent_rows", "false"},
                                 {"share_prefix", "true"}});
  double prompts = 0;
  std::ifstream rows(file);
  for (std::string line; std::getline(rows, line);)
    prompts += static_cast<double>(Json::parse(line).at("prompt_ids").size());
  EXPECT_EQ(run.shared, prompts * 3 / 4);
}

// A term of the reference moves every row.
TEST(Windows, NoRowIsSilentWithAReference) {
  NEED_MODEL();
  const host::Scratch scratch;
  EXPECT_EQ(windowed_run(scratch / "out", scratch / "rollouts.jsonl", {{"beta", "0.1"}}).silent, 0);
}

// A generation in which no row teaches is a step with a gradient of 0.
TEST(Windows, WithoutAnyRowThatTeaches) {
  NEED_MODEL();
  const host::Scratch scratch;
  const Settings settings = {{"gradient_accumulation_steps", "2"}, {"per_device_train_batch_size", "2"}};
  Rewarded run(host::grpo(scratch / "out", settings), [](trl_rollout* rollout) {
    Error error;
    for (size_t i = 0; i < trl_rollout_count(rollout); ++i)
      EXPECT_EQ(trl_rollout_set_reward(rollout, i, 1, error), TRL_OK);
    return int32_t{TRL_OK};
  });
  ASSERT_EQ(trl_trainer_step(run.trainer.get(), nullptr, run.error), TRL_OK) << run.error.message();
  const Json record = run.last()[0];
  EXPECT_EQ(record["silent_rows"], 1.0);
  EXPECT_EQ(record["loss"], 0.0);
  EXPECT_EQ(record["grad_norm"], 0.0);
  EXPECT_GT(record["entropy"], 0.0);
}

// The last update of an epoch has fewer rows: four micro-batches are one of three, and one.
TEST(Windows, TheShareOfSilentRowsIsOfThoseThatThereAre) {
  NEED_MODEL();
  const host::Scratch scratch;
  const Settings settings = {{"gradient_accumulation_steps", "3"},
                             {"per_device_train_batch_size", "2"},
                             {"steps_per_generation", "2"}};
  Rewarded run(host::grpo(scratch / "out", settings), [](trl_rollout* rollout) {
    Error error;
    for (size_t i = 0; i < trl_rollout_count(rollout); ++i)
      EXPECT_EQ(trl_rollout_set_reward(rollout, i, 1, error), TRL_OK);
    return int32_t{TRL_OK};
  });
  ASSERT_EQ(run.train(), TRL_OK) << run.error.message();
  for (int step = 0; step < 3; ++step) EXPECT_EQ(run.last()[step]["silent_rows"], 1.0) << step;
}

// Rows in the order of the update have the sums that they had when their old log-probabilities were computed,
// in bfloat16, too: the first loss of RLOO, which is of the ratios alone, is 0.
TEST(Windows, RatiosBeginAtOne) {
  NEED_MODEL();
  const host::Scratch scratch;
  for (const char* const rows : {"8", "2"}) {
    const Settings own = {{"method", "rloo"},
                          {"beta", "0"},
                          {"dtype", "bfloat16"},
                          {"share_prefix", "true"},
                          {"per_device_train_batch_size", rows},
                          {"gradient_accumulation_steps", rows == std::string("8") ? "1" : "4"},
                          {"num_generations", "4"},
                          {"max_completion_length", "24"},
                          {"max_steps", "1"}};
    Rewarded run(host::grpo(scratch / rows, own), host::reward_all);
    ASSERT_EQ(run.train(), TRL_OK) << run.error.message();
    EXPECT_NEAR(run.last()[0]["loss"].get<double>(), 0, 1e-6) << rows;
  }
}

}  // namespace
