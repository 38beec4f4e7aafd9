// report_to html: the report of a run.
#include "report/page.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "base/json/json.h"
#include "telemetry/recorded_run.h"

namespace trl::report {
namespace {

class RunPage : public telemetry::Records {
 protected:
  RunPage() { make_report = make_html; }
};

size_t count_of(const std::string& text, std::string_view part) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; ++at) ++count;
  return count;
}

TEST_F(RunPage, needs_no_other_file) {
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

TEST_F(RunPage, shows_the_metrics_of_every_method) {
  start({"html"});
  const char* const names[] = {"loss",         "rewards/chosen",     "rewards/rejected", "rewards/margins",
                               "logps/chosen", "rewards/accuracies", "logps/rejected",   "logits/chosen",
                               "kl",           "logits/rejected",    "aux_loss",         "min_reward",
                               "mean_reward",  "max_reward",         "accuracy",         "margin",
                               "profile/gemm", "shared_tokens"};
  for (int64_t step = 1; step <= 6; ++step) {
    for (const std::string prefix : {"", "eval_"}) {
      telemetry::Record record;
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
TEST_F(RunPage, of_a_run_that_lives) {
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
TEST_F(RunPage, of_a_run_that_resumed) {
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

TEST_F(RunPage, of_a_run_that_was_left) {
  start({"html"});
  train(1, 3);
  recorders.reset();
  EXPECT_NE(base::read_file(path("report.html")).find("left before its end"), std::string::npos);
}

TEST_F(RunPage, has_a_table_of_samples) {
  to.names = {"html"};
  to.samples = telemetry::samples_path(to.output_dir);
  base::make_directories(to.output_dir);
  base::write_file(to.samples,
                   telemetry::sample_line({2, 0.5, "<one>", "\"two\"\x1e<b>"}) +
                       telemetry::sample_line(
                           {4, 1, base::Json::parse(R"([{"role": "user", "content": "a & b?"}])"), "c"}));
  const auto page = [&] {
    {
      telemetry::Recorders all(to, make_html, [](const std::string&) {});
      telemetry::TrainerState at;
      at.log_history.emplace_back().set_integer("step", 4);
      all.add(at);
    }
    return base::read_file(path("report.html"));
  };
  const std::string with = page();
  const size_t newer = with.find("<tr><td>4</td><td>user: a &amp; b?</td><td>c</td></tr>");
  const size_t older = with.find("<tr><td>2</td><td>&lt;one&gt;</td><td>&quot;two&quot; &lt;b&gt;</td></tr>");
  EXPECT_NE(newer, std::string::npos);
  EXPECT_NE(older, std::string::npos);
  EXPECT_LT(newer, older);
  to.samples.clear();  // of another run, which had samples
  EXPECT_EQ(page().find("Samples"), std::string::npos);
}

TEST_F(RunPage, shows_what_completions_are_like) {
  start({"html"});
  for (int64_t step = 1; step <= 2; ++step) {
    telemetry::Record record;
    for (const char* name :
         {"reward", "reward_std", "frac_reward_zero_std", "rewards/points/mean", "rewards/points/std",
          "completions/mean_length", "completions/min_length", "completions/max_length"})
      record.set(name, 0.5);
    log(std::move(record), step);
  }
  recorders.reset();
  const std::string page = base::read_file(path("report.html"));
  for (const char* title : {"reward", "Standard deviation of rewards", "Groups without spread, of 1",
                            "Reward points", "Tokens of completions"})
    EXPECT_EQ(count_of(page, fmt::format("<h2>{}</h2>", title)), 1u) << title;
  EXPECT_EQ(count_of(page, "<svg"), 5u);
  EXPECT_EQ(page.find("Best and worst"), std::string::npos);
}

TEST(ScoredTable, has_the_best_and_the_worst) {
  EXPECT_EQ(scored_section({}), "");
  EXPECT_EQ(scored_section({{1, "a", "b", std::nan("")}}), "");
  std::vector<telemetry::ScoredCompletion> all;
  for (int i = 0; i < 9; ++i) all.push_back({4, "a", fmt::format("<{}>", i), (i % 2 == 0 ? 1.0 : -1.0) * i});
  all.push_back({4, "a", base::Json::parse(R"([{"role": "assistant", "content": "c"}])"), 9});
  const std::string section = scored_section(all);
  EXPECT_NE(section.find("Best and worst completions of step 4"), std::string::npos);
  size_t before = 0;
  for (const char* row : {"<tr><td>9</td><td>a</td><td>assistant: c</td></tr>", "&lt;8&gt;", "&lt;6&gt;",
                          "&lt;3&gt;", "&lt;5&gt;", "&lt;7&gt;"}) {
    const size_t at = section.find(row);
    ASSERT_NE(at, std::string::npos) << row;
    EXPECT_GT(at, before) << row;
    before = at;
  }
  EXPECT_EQ(count_of(section, "<tr>"), 7u);
}

TEST(SamplesTable, has_the_newest_of_many) {
  EXPECT_EQ(samples_section({}), "");
  std::vector<telemetry::Sample> samples;
  for (int64_t step = 1; step <= 300; ++step) samples.push_back({step, 0, "a", "b"});
  const std::string section = samples_section(samples);
  EXPECT_NE(section.find("<td>101</td>"), std::string::npos);
  EXPECT_EQ(section.find("<td>100</td>"), std::string::npos);
  EXPECT_NE(section.find("The newest 200 of 300"), std::string::npos);
}

}  // namespace
}  // namespace trl::report
