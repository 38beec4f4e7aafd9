// What report_to writes: tables, lines, event files and the report; what a resumed run makes of them.
#include "telemetry/recorder.h"

#include <unistd.h>

#include <cmath>
#include <ctime>
#include <filesystem>
#include <limits>

#include "base/error.h"
#include "base/files.h"
#include "base/json.h"
#include "telemetry/chart.h"
#include "telemetry/event_file.h"

namespace trl::telemetry {
namespace {

namespace fs = std::filesystem;
using Lines = std::vector<std::string>;

class Records : public testing::Test {
 protected:
  Records() {
    to.output_dir = (fs::temp_directory_path() / ("trl_recorder_test_" + std::to_string(getpid()))).string();
    fs::remove_all(to.output_dir);
    to.title = "sft of <tiny>";
    to.facts = {{"model", "models/tiny & small"}};
    to.options = {{"learning_rate", "0.002"}};
  }
  ~Records() override { fs::remove_all(to.output_dir); }

  void start(const Lines& names) {
    to.names = names;
    recorders =
        std::make_unique<Recorders>(to, [this](const std::string& line) { warnings.push_back(line); });
  }
  void train(int64_t step, double loss) {
    Record record;
    record.set("loss", loss);
    record.set("num_tokens", static_cast<double>(100 * step));
    state.seconds += 60;
    state.speeds.push_back({step, 100.0 / 60});
    log(std::move(record), step);
  }
  void evaluate(int64_t step, double loss) {
    Record record;
    record.set("eval_loss", loss);
    log(std::move(record), step);
  }
  void log(Record record, int64_t step) {
    state.global_step = step;
    record.set("epoch", static_cast<double>(step) / 4);
    record.set_integer("step", step);
    state.log_history.push_back(std::move(record));
    recorders->add(state);
  }
  // As a run that resumes from the checkpoint after `records` records, at this step.
  void resume(size_t records, int64_t step, const Lines& names) {
    state.log_history.resize(records);
    state.global_step = step;
    start(names);
    recorders->begin(state);
  }
  std::string path(const std::string& name) const { return base::join_path(to.output_dir, name); }
  Lines lines(const std::string& name) const {
    Lines out;
    std::string text = base::read_file(path(name));
    EXPECT_TRUE(text.empty() || text.ends_with('\n'));
    for (size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
      out.push_back(text.substr(at, end - at));
    return out;
  }
  std::string event_folder() const { return path("runs/" + base::list_directory(path("runs")).at(0)); }

  RecordTo to;
  TrainerState state;
  Lines warnings;
  std::unique_ptr<Recorders> recorders;
};

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

size_t count_of(const std::string& text, std::string_view part) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++count;
  return count;
}

TEST_F(Records, report_needs_no_other_file) {
  start({"html"});
  recorders->begin(state);
  for (int64_t step = 1; step <= 2000; ++step) train(step, 5.0 / std::sqrt(static_cast<double>(step)));
  train(2001, std::numeric_limits<double>::quiet_NaN());
  evaluate(2001, 0.125);
  recorders->close(state, "finished");
  const std::string page = base::read_file(path("report.html"));
  for (const char* text : {"<title>sft of &lt;tiny&gt;</title>", "models/tiny &amp; small", "finished",
                           "prefers-color-scheme: dark", "<title>step 2001\neval: 0.125</title>",
                           "learning_rate", "2001 of 0", "200\u2009100"}) {
    EXPECT_NE(page.find(text), std::string::npos) << text;
  }
  for (const char* text : {"http", "<script", "src=", "href=", "nan ", "inf "})
    EXPECT_EQ(page.find(text), std::string::npos) << text;
  EXPECT_EQ(count_of(page, "<svg"), 2u);  // loss and throughput: there was nothing else
  EXPECT_LT(page.size(), 500000u);
}

TEST_F(Records, report_shows_the_metrics_of_every_method) {
  start({"html"});
  const char* const names[] = {"loss",         "rewards/chosen",     "rewards/rejected", "rewards/margins",
                               "logps/chosen", "rewards/accuracies", "logps/rejected",   "logits/chosen",
                               "kl",           "logits/rejected",    "aux_loss",         "min_reward",
                               "mean_reward",  "max_reward",         "accuracy",         "margin",
                               "profile/gemm", "shared_tokens"};
  for (int64_t step = 1; step <= 6; ++step) {
    for (const std::string prefix : {"", "eval_"}) {
      Record record;
      double value = 0.5;
      for (const char* name : names) record.set(prefix + name, value += 0.1 * static_cast<double>(step));
      record.set(prefix.empty() ? "train_runtime" : "eval_runtime", 1);
      log(std::move(record), step);
    }
  }
  recorders->close(state, "finished");
  const std::string page = base::read_file(path("report.html"));
  for (const char* title :
       {"Loss", "Rewards", "Reward margin", "Reward accuracy", "Log-probabilities", "Logits", "KL",
        "Router loss", "Scores", "Accuracy", "Score margin", "profile/gemm", "Shared tokens"})
    EXPECT_EQ(count_of(page, fmt::format("<h2>{}</h2>", title)), 1u) << title;
  EXPECT_EQ(count_of(page, "<svg"), 13u);
  for (const char* text : {"step 6\nchosen: ", "step 6\nrejected: ", "step 6\neval chosen: ",
                           "step 6\neval rejected: ", "step 6\neval mean: ", "step 6\neval: "})
    EXPECT_NE(page.find(text), std::string::npos) << text;
}

// From the first record on there is one, which loads itself again until the run is over; a run that is killed
// leaves it.
TEST_F(Records, report_of_a_run_that_lives) {
  start({"html"});
  train(1, 3);
  const auto page = [&] { return base::read_file(path("report.html")); };
  EXPECT_NE(page().find("running &middot;"), std::string::npos);
  EXPECT_NE(page().find("http-equiv=\"refresh\""), std::string::npos);
  train(2, 0.7109375);
  EXPECT_EQ(page().find("0.7109"), std::string::npos);  // within the minute
  recorders->saved(state);
  EXPECT_NE(page().find("0.7109"), std::string::npos);
  recorders->close(state, "finished");
  EXPECT_EQ(page().find("http-equiv"), std::string::npos);
  EXPECT_EQ(page().find("running"), std::string::npos);
}

// Times and speeds of a resumed run are those of the whole run.
TEST_F(Records, report_of_a_run_that_resumed) {
  start({"html"});
  recorders->begin(state);
  train(1, 3);
  train(2, 2);
  resume(2, 2, {"html"});
  train(3, 1);
  recorders->close(state, "finished");
  const std::string page = base::read_file(path("report.html"));
  EXPECT_NE(page.find("<b>3 min</b>"), std::string::npos);
  EXPECT_NE(page.find("<title>step 1\ntrain: 1.66667</title>"), std::string::npos);
  EXPECT_NE(page.find("<title>step 3\ntrain: 1.66667</title>"), std::string::npos);
}

TEST_F(Records, report_of_a_run_that_was_left) {
  start({"html"});
  train(1, 3);
  recorders.reset();
  EXPECT_NE(base::read_file(path("report.html")).find("left before its end"), std::string::npos);
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

TEST(Chart, ticks_are_round) {
  EXPECT_EQ(round_ticks(0, 10, 5), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(round_ticks(6.03, 6.7, 5), (std::vector<double>{6.2, 6.4, 6.6000000000000005}));
  EXPECT_EQ(short_number(round_ticks(6.03, 6.7, 5)[2], 6), "6.6");
  EXPECT_EQ(round_ticks(0, 2e-5, 4).size(), 5u);
  EXPECT_EQ(short_number(1e-5, 6), "1e-05");
  EXPECT_EQ(short_number(123456, 6), "123456");
}

TEST(Chart, values_one_bit_apart_are_one_height) {
  const double low = 5.915146589641507, high = std::nextafter(low, 6);
  EXPECT_LE(round_ticks(low, high, 5).size(), 11u);
  const std::string svg = to_svg({"entropy", {{"entropy", {{1, low}, {2, high}}}}});
  size_t labels = 0;
  for (size_t at = 0; (at = svg.find("class=\"y\"", at)) != svg.npos; ++at) ++labels;
  EXPECT_GE(labels, 4u);
  EXPECT_LE(labels, 12u);
  EXPECT_EQ(svg.find("nan"), svg.npos);
}

}  // namespace
}  // namespace trl::telemetry
