// What a plan looks like: the step as letters on a terminal, option sets beside each other, and a page that
// is well-formed and stands alone.
#include "report/plan_report.h"

#include <gtest/gtest.h>

#include <set>

#include "report/well_formed.h"

namespace trl::report {
namespace {

using telemetry::PlannedSet;
using telemetry::RunPlan;

// Halves of the step: the process alone, with as many weights, and with half of them left.
RunPlan plan() {
  RunPlan out;
  out.model = "a<b>";
  out.rows = 2;
  out.row_tokens = out.cache_tokens = 64;
  out.cache_bytes = 700;
  out.peak_bytes = 280;
  out.terms = {{"process", 140, 140}, {"weights", 140, 140}};
  out.timeline = {{0, "open", {140, 0}}, {0.5, "forward", {140, 140}}, {1, "optimizer", {140, 70}}};
  out.time = {128, 0.5, 1256.4, 30000, 3840000, 7500};
  out.disk.checkpoint_bytes = 900;
  out.disk.checkpoints = 2;
  out.disk.model_bytes = 300;
  out.disk.needed_bytes = 2100;
  out.disk.free_bytes = 5000;
  return out;
}

std::vector<PlannedSet> one(RunPlan of) { return {{"as configured", std::move(of), {}}}; }

// Its terms are others, in another order.
PlannedSet other(const std::string& options) {
  RunPlan out = plan();
  out.peak_bytes = 560;
  out.terms = {{"process", 140, 140}, {"workspace", 140, 140}, {"weights", 280, 280}};
  out.timeline = {{0, "open", {140, 140, 280}}};
  return {options, std::move(out), {}};
}

std::vector<PlannedSet> compared() {
  const std::string why = "optim: 'x<y>' is not accepted: " + std::string(90, 'z') + " and more words";
  std::vector<PlannedSet> sets = one(plan());
  sets.push_back(other("optim: adamw_8bit"));
  sets.push_back({"optim: x", {}, telemetry::Refusal{"optim", why}});
  sets.push_back(other("a_long_key: with a value, another_key: with another value, third: 3"));
  return sets;
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

TEST(PlanReport, TheStepIsDrawnInLetters) {
  const std::vector<std::string> text = lines(plan_text(one(plan())));
  const auto top =
      std::find_if(text.begin(), text.end(), [](const auto& l) { return l.starts_with("    280 B"); });
  ASSERT_NE(top, text.end()) << plan_text(one(plan()));
  // 49 columns, the last of which shows the last moment; 14 lines of 20 bytes.
  for (int line = 0; line < 14; ++line) {
    const int from = 13 - line;  // lines below this one
    std::string wanted(24, from < 7 ? 'p' : ' ');
    wanted += std::string(24, from < 7 ? 'p' : 'w');
    wanted += from < 7 ? "p" : from < 10 ? "w" : "";
    EXPECT_EQ(top[line].substr(11), wanted) << top[line];
  }
  EXPECT_EQ(top[14], "        0 +" + std::string(49, '-'));
  EXPECT_EQ(top[15], "           ^open 140 B" + std::string(13, ' ') + "^forward 280 B");
  EXPECT_EQ(top[16], std::string(44, ' ') + "optimizer 210 B^");
}

TEST(PlanReport, TextIsAsciiInSixtyColumns) {
  const std::string text = plan_text(compared());
  for (const std::string& line : lines(text)) {
    for (const char c : line) EXPECT_TRUE(c >= ' ' && c <= '~') << line;
    EXPECT_TRUE(line.size() <= 60 || line.find("zzz") != std::string::npos) << line;
  }
  EXPECT_NE(text.find("refused: optim: 'x<y>' is not accepted:"), std::string::npos) << text;
}

TEST(PlanReport, SetsStandBesideTheConfiguration) {
  const std::string text = plan_text(compared());
  // Half as much as the highest peak, with the letters of the same terms.
  EXPECT_NE(text.find("    " + std::string(14, 'p') + std::string(14, 'w') + "\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("    " + std::string(14, 'p') + std::string(14, 'W') + std::string(28, 'w') + "\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("  optim: adamw_8bit\n                      560 B     1256    2 h 05 min    2.1 kB\n"),
            std::string::npos)
      << text;
}

TEST(PlanReport, EndsWithTimeAndDisk) {
  const std::string end =
      "\ntime       2 h 05 min for 30000 steps\n"
      "           0.5 s a step of 128 tokens, 1256 tokens/s\n"
      "disk       300 B for the model, 1.8 kB for 2 checkpoints\n"
      "           5 kB free\n"
      "KV cache   700 B for 64 tokens, in generation only\n";
  EXPECT_TRUE(plan_text(compared()).ends_with(end)) << plan_text(compared());
  RunPlan open = plan();
  open.time.tokens = open.time.seconds = 0;
  EXPECT_NE(plan_text(one(open)).find("of the run: known with max_steps or the rows"), std::string::npos);
  open.disk.free_bytes = 2000;
  EXPECT_NE(plan_text(one(open)).find("2 kB free, 100 B too little: it is refused"), std::string::npos)
      << plan_text(one(open));
}

TEST(PlanReport, ThePageStandsAlone) {
  for (const std::vector<PlannedSet>& of : {one(plan()), compared()}) {
    const std::string page = plan_page(of);
    expect_well_formed(page);
    for (const char* part :
         {"<!DOCTYPE html>", "prefers-color-scheme: dark", "a&lt;b&gt;: 2 rows of 64 tokens", "peak 280 B"})
      EXPECT_NE(page.find(part), std::string::npos) << part;
    for (const char* part : {"<script", "href", "url(", "src=", "http", "nan", "inf"})
      EXPECT_EQ(page.find(part), std::string::npos) << part;
  }
}

TEST(PlanReport, ATermHasOneColourInAllSets) {
  const std::string page = plan_page(compared());
  const auto colours = [&](const std::string& term) {
    std::set<std::string> found;
    const std::string end = "><title>" + term;
    for (size_t at = page.find(end); at != std::string::npos; at = page.find(end, at + 1)) {
      const size_t fill = page.rfind("fill=\"#", at);
      found.insert(page.substr(fill + 6, 7));
    }
    return found;
  };
  EXPECT_EQ(colours("weights").size(), 1u);
  EXPECT_EQ(colours("workspace").size(), 1u);
  EXPECT_NE(colours("weights"), colours("workspace"));
  EXPECT_NE(page.find("refused: optim: 'x&lt;y&gt;'"), std::string::npos);
}

}  // namespace
}  // namespace trl::report
