// What a plan looks like: the step as letters on a terminal, option sets beside each other, and a page that
// is well-formed and stands alone.
#include "report/plan_report.h"

#include <gtest/gtest.h>

#include <set>

#include "base/json/json.h"
#include "report/well_formed.h"

namespace trl::report {
namespace {

base::Json moment(double at, const char* stage, std::vector<int64_t> bytes) {
  return {{"at", at}, {"stage", stage}, {"bytes", std::move(bytes)}};
}

base::Json disk() {
  return {{"checkpoint_bytes", 900},
          {"checkpoints", 2},
          {"model_bytes", 300},
          {"needed_bytes", 2100},
          {"free_bytes", 5000}};
}

// Halves of the step: the process alone, with as many weights, and with half of them left.
base::Json plan() {
  base::Json out = {{"model", "a<b>"}, {"rows", 2}, {"row_tokens", 64}, {"peak_bytes", 280}};
  out["terms"] = {{{"name", "process"}, {"bytes", 140}, {"most_bytes", 140}},
                  {{"name", "weights"}, {"bytes", 140}, {"most_bytes", 140}}};
  out["timeline"] = {moment(0, "open", {140, 0}), moment(0.5, "forward", {140, 140}),
                     moment(1, "optimizer", {140, 70})};
  out["tokens_per_step"] = 128;
  out["seconds_per_step"] = 0.5;
  out["tokens_per_second"] = 1256.4;
  out["steps"] = 30000;
  out["seconds"] = 7500;
  out["disk"] = disk();
  return out;
}

// Its terms are others, in another order.
base::Json other(const std::string& options) {
  base::Json out = plan();
  out["options"] = options;
  out["peak_bytes"] = 560;
  out["terms"] = {{{"name", "process"}, {"bytes", 140}, {"most_bytes", 140}},
                  {{"name", "workspace"}, {"bytes", 140}, {"most_bytes", 140}},
                  {{"name", "weights"}, {"bytes", 280}, {"most_bytes", 280}}};
  out["timeline"] = {moment(0, "open", {140, 140, 280})};
  return out;
}

base::Json compared() {
  base::Json out = plan();
  const std::string why = "optim: 'x<y>' is not accepted: " + std::string(90, 'z') + " and more words";
  out["alternatives"] = {other("optim: adamw_8bit"),
                         {{"options", "optim: x"}, {"refused", {{"key", "optim"}, {"message", why}}}},
                         other("a_long_key: with a value, another_key: with another value, third: 3")};
  return out;
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
  const std::vector<std::string> text = lines(plan_text(plan()));
  const auto top =
      std::find_if(text.begin(), text.end(), [](const auto& l) { return l.starts_with("    280 B"); });
  ASSERT_NE(top, text.end()) << plan_text(plan());
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
      "           5 kB free\n";
  EXPECT_TRUE(plan_text(compared()).ends_with(end)) << plan_text(compared());
  base::Json open = plan();
  open.erase("seconds");
  EXPECT_NE(plan_text(open).find("of the run: known with max_steps or the rows"), std::string::npos);
  open["disk"]["free_bytes"] = 2000;
  EXPECT_NE(plan_text(open).find("2 kB free, 100 B too little: it is refused"), std::string::npos)
      << plan_text(open);
}

TEST(PlanReport, ThePageStandsAlone) {
  for (const base::Json& of : {plan(), compared()}) {
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
