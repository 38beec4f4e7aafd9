// What report_to writes: tables, lines and event files; what a resumed run makes of them.
#include "telemetry/recorder.h"

#include <ctime>
#include <filesystem>
#include <limits>

#include "base/error.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "telemetry/event_file.h"
#include "telemetry/recorded_run.h"

namespace trl::telemetry {
namespace {

TEST_F(Records, csv_widens_for_a_name_that_comes_later) {
  start({"csv"});
  recorders->begin(state);
  EXPECT_EQ(lines("log_history.csv"), Lines{"step,epoch"});
  train(1, 2.5);
  train(2, 1e-5);
  EXPECT_EQ(lines("log_history.csv"),
            (Lines{"step,epoch,loss,num_tokens", "1,0.25,2.5,100.0", "2,0.5,1e-05,200.0"}));
  evaluate(2, std::numeric_limits<double>::quiet_NaN());
  train(3, 1.0 / 3);
  EXPECT_EQ(lines("log_history.csv"),
            (Lines{"step,epoch,loss,num_tokens,eval_loss", "1,0.25,2.5,100.0,", "2,0.5,1e-05,200.0,",
                   "2,0.5,,,NaN", "3,0.75,0.3333333333333333,300.0,"}));
  EXPECT_TRUE(warnings.empty());
}

TEST_F(Records, jsonl_is_an_object_a_line) {
  start({"jsonl"});
  train(1, 2.5);
  evaluate(1, 2.25);
  EXPECT_EQ(lines("log_history.jsonl"),
            (Lines{R"({"loss": 2.5, "num_tokens": 100.0, "epoch": 0.25, "step": 1})",
                   R"({"eval_loss": 2.25, "epoch": 0.25, "step": 1})"}));
}

TEST_F(Records, a_resumed_run_has_no_step_twice) {
  start({"csv", "jsonl"});
  for (int64_t step = 1; step <= 4; ++step) train(step, 5.0 - static_cast<double>(step));
  const Lines csv = lines("log_history.csv"), jsonl = lines("log_history.jsonl");
  resume(2, 2, {"csv", "jsonl"});
  for (int64_t step = 3; step <= 4; ++step) train(step, 5.0 - static_cast<double>(step));
  EXPECT_EQ(lines("log_history.csv"), csv);
  EXPECT_EQ(lines("log_history.jsonl"), jsonl);
  resume(0, 0, {"csv"});  // a new run into the same folder
  train(1, 9);
  EXPECT_EQ(lines("log_history.csv"), (Lines{"step,epoch,loss,num_tokens", "1,0.25,9.0,100.0"}));
}

TEST_F(Records, event_files_have_the_tags_of_transformers) {
  start({"tensorboard"});
  recorders->begin(state);
  const double before = static_cast<double>(std::time(nullptr));
  train(1, 2.5);
  evaluate(300, 0.1);
  const Lines files = base::list_directory(event_folder());
  ASSERT_EQ(files.size(), 1u);
  EXPECT_TRUE(files[0].starts_with("events.out.tfevents.")) << files[0];
  const auto events = test::read_events(base::read_file(base::join_path(event_folder(), files[0])));
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].file_version, "brain.Event:2");
  EXPECT_FALSE(events[0].session_start);
  using Scalars = std::vector<std::pair<std::string, float>>;
  EXPECT_EQ(events[1].scalars,
            (Scalars{{"train/loss", 2.5f}, {"train/num_tokens", 100.0f}, {"train/epoch", 0.25f}}));
  EXPECT_EQ(events[1].step, 1);
  EXPECT_EQ(events[2].scalars, (Scalars{{"eval/loss", 0.1f}, {"train/epoch", 75.0f}}));
  EXPECT_EQ(events[2].step, 300);
  for (const auto& event : events) {
    EXPECT_GE(event.wall_time, before);
    EXPECT_LE(event.wall_time, before + 60);
  }
}

TEST_F(Records, a_resumed_run_tells_tensorboard_what_to_forget) {
  start({"tensorboard"});
  train(1, 3);
  train(2, 2);
  resume(1, 1, {"tensorboard"});
  train(2, 1.5);
  EXPECT_EQ(base::list_directory(path("runs")).size(), 1u);
  const Lines files = base::list_directory(event_folder());
  ASSERT_EQ(files.size(), 2u);
  const auto events = test::read_events(base::read_file(base::join_path(event_folder(), files[1])));
  ASSERT_EQ(events.size(), 3u);
  EXPECT_TRUE(events[1].session_start);
  EXPECT_EQ(events[1].step, 2);
  EXPECT_EQ(events[2].scalars.at(0).second, 1.5f);
}

TEST_F(Records, logging_dir_is_where_event_files_go) {
  to.logging_dir = path("elsewhere/deep");
  start({"tensorboard"});
  train(1, 3);
  EXPECT_EQ(base::list_directory(to.logging_dir).size(), 1u);
  EXPECT_FALSE(base::file_exists(path("runs")));
}

TEST_F(Records, what_cannot_be_written_is_told_once_and_left_out) {
  start({"csv", "jsonl"});
  train(1, 3);
  fs::remove(path("log_history.jsonl"));
  fs::create_directory(path("log_history.jsonl"));
  train(2, 2);
  train(3, 1);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_TRUE(warnings[0].starts_with("report_to jsonl: " + path("log_history.jsonl"))) << warnings[0];
  EXPECT_EQ(lines("log_history.csv").size(), 4u);
}

TEST_F(Records, a_folder_that_cannot_be_made_is_known_at_once) {
  base::make_directories(to.output_dir);
  base::write_file(path("runs"), "a file");
  EXPECT_THROW(start({"tensorboard"}), Error);
}

TEST_F(Records, trackers_write_nothing) {
  start({"wandb", "all", "none"});
  train(1, 3);
  EXPECT_FALSE(base::file_exists(to.output_dir));
}

}  // namespace
}  // namespace trl::telemetry
