// Numbers and trainer_state.json as Python writes them.
#include "telemetry/trainer_state.h"

#include <filesystem>
#include <limits>

#include "base/error.h"
#include "support/golden.h"

namespace trl::telemetry {
namespace {

TEST(PythonFloat, is_repr) {
  const std::pair<double, const char*> cases[] = {
      {0.0, "0.0"},
      {-0.0, "-0.0"},
      {1.0, "1.0"},
      {94.0, "94.0"},
      {2e-5, "2e-05"},
      {1e-4, "0.0001"},
      {0.1, "0.1"},
      {123456789.0, "123456789.0"},
      {1e15, "1000000000000000.0"},
      {1e16, "1e+16"},
      {1.5e16, "1.5e+16"},
      {1e22, "1e+22"},
      {1.5e-7, "1.5e-07"},
      {1.0 / 3.0, "0.3333333333333333"},
      {5e-324, "5e-324"},
      {1.7976931348623157e308, "1.7976931348623157e+308"},
      {-2.5, "-2.5"},
      {6.55584716796875, "6.55584716796875"},
      {154586880.0, "154586880.0"},
  };
  for (const auto& [value, text] : cases) EXPECT_EQ(python_float(value), text);
  EXPECT_EQ(python_float(std::numeric_limits<double>::quiet_NaN()), "NaN");
  EXPECT_EQ(python_float(std::numeric_limits<double>::infinity()), "Infinity");
  EXPECT_EQ(python_float(-std::numeric_limits<double>::infinity()), "-Infinity");
}

TEST(RoundDecimals, is_python_round) {
  EXPECT_EQ(round_decimals(1.23456, 4), 1.2346);
  EXPECT_EQ(round_decimals(2.675, 2), 2.67);
  EXPECT_EQ(round_decimals(0.125, 2), 0.12);  // ties to even
  EXPECT_EQ(round_decimals(0.375, 2), 0.38);
  EXPECT_EQ(round_decimals(-0.0005, 3), -0.001);  // the double lies beyond the tie
  EXPECT_EQ(round_decimals(12.0, 3), 12.0);
}

TEST(Record, keeps_order_and_replaces) {
  Record record;
  record.set("loss", 1.5);
  record.set_integer("step", 3);
  record.set("loss", 2.5);
  ASSERT_EQ(record.entries().size(), 2u);
  EXPECT_EQ(record.entries()[0].name, "loss");
  EXPECT_EQ(record.entries()[0].value, 2.5);
  EXPECT_EQ(to_text(record.entries()[1]), "3");
}

// The text of a real checkpoint's file, rebuilt from its numbers.
TEST(TrainerState, is_written_as_transformers_does) {
  TRL_NEED_GOLDEN("trajectories/sft_resume/case.json");
  std::string expected =
      test::golden_json("trajectories/sft_resume/case.json")["trainer_state"].get<std::string>();
  const base::Json json = base::parse_json(expected, "trainer_state");
  TrainerState state;
  state.epoch = json["epoch"];
  state.global_step = json["global_step"];
  state.max_steps = json["max_steps"];
  state.logging_steps = json["logging_steps"];
  state.save_steps = json["save_steps"];
  state.num_train_epochs = json["num_train_epochs"];
  state.train_batch_size = json["train_batch_size"];
  state.total_flos = json["total_flos"];
  for (const base::Json& entry : json["log_history"]) {
    Record record;
    for (const auto& [name, value] : entry.items()) {
      if (value.is_number_integer()) {
        record.set_integer(name, value);
      } else {
        record.set(name, value);
      }
    }
    state.log_history.push_back(record);
  }
  // That file was written while a save was asked for; ours is written when nothing is.
  const std::string saving = "\"should_save\": true";
  ASSERT_NE(expected.find(saving), std::string::npos);
  expected.replace(expected.find(saving), saving.size(), "\"should_save\": false");
  EXPECT_EQ(trainer_state_json(state), expected);
}

TEST(TrainerState, is_read_back) {
  TrainerState state;
  state.epoch = 1.0 / 3;
  state.global_step = 7;
  state.total_flos = 1e17;
  state.best_metric = 0.1 + 0.2;
  state.best_global_step = 6;
  state.best_model_checkpoint = "out/\"NaN\" \\ Infinity/checkpoint-6";
  Record record;
  record.set("loss", std::numeric_limits<double>::quiet_NaN());
  record.set("grad_norm", std::numeric_limits<double>::infinity());
  record.set("least", -std::numeric_limits<double>::infinity());
  record.set("tiny", 5e-324);
  record.set_integer("step", 7);
  state.log_history = {record, {}};
  const TrainerState again = parse_trainer_state(trainer_state_json(state), "state");
  EXPECT_EQ(trainer_state_json(again), trainer_state_json([&] {
              TrainerState want = again;
              want.log_history = state.log_history;
              return want;
            }()));
  EXPECT_EQ(again.epoch, state.epoch);
  EXPECT_EQ(again.global_step, 7);
  EXPECT_EQ(again.total_flos, 1e17);
  EXPECT_EQ(again.best_metric, state.best_metric);
  EXPECT_EQ(again.best_global_step, 6);
  EXPECT_EQ(again.best_model_checkpoint, state.best_model_checkpoint);
  EXPECT_EQ(again.log_history.size(), 2u);
  for (const char* bad : {"", "[]", "{}", "{\"epoch\": 1}", "{\"epoch\": NaNx}"}) {
    EXPECT_THROW(parse_trainer_state(bad, "state"), Error) << bad;
  }
}

TEST(TrainerState, before_the_first_step) {
  const base::Json json = base::parse_json(trainer_state_json({}), "state");
  EXPECT_EQ(json.size(), 20u);
  EXPECT_TRUE(json["epoch"].is_number_integer());
  EXPECT_EQ(json["log_history"].size(), 0u);
  EXPECT_FALSE(json["stateful_callbacks"]["TrainerControl"]["args"]["should_training_stop"].get<bool>());
}

TEST(TrainerState, replaces_the_file) {
  const std::string directory = std::filesystem::temp_directory_path() / "trl_telemetry_test" / "new";
  std::filesystem::remove_all(directory);
  TrainerState state;
  write_trainer_state(state, directory);
  state.global_step = 7;
  write_trainer_state(state, directory);
  EXPECT_EQ(base::read_json_file(directory + "/trainer_state.json")["global_step"], 7);
  EXPECT_EQ(base::list_directory(directory), std::vector<std::string>{"trainer_state.json"});
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace trl::telemetry
