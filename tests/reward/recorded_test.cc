// The built-in rewards against the values of TRL 1.16.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "reward/score_one.h"
#include "support/golden.h"

namespace trl::reward {
namespace {

constexpr const char* kCases = "rewards/cases.json";
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

double recorded(const base::Json& value) { return value.is_null() ? kNone : value.get<double>(); }

void expect_recorded(double got, const base::Json& want, const base::Json& item) {
  EXPECT_TRUE(test::close(got, recorded(want), test::limits::function)) << got << " for " << item.dump();
}

// get_soft_overlong_punishment(max_completion_len=100, soft_punish_cache=20)
std::string spec_of(const base::Json& item) {
  std::string out;
  for (const auto& [name, value] : item["args"].items())
    out += (out.empty() ? "" : ", ") + name + "=" + value.dump();
  return item["function"].get<std::string>() + "(" + out + ")";
}

std::vector<int32_t> ids_of(const base::Json& item) {
  if (item.contains("completion_ids")) return item["completion_ids"].get<std::vector<int32_t>>();
  return std::vector<int32_t>(item["completion_length"].get<size_t>(), 1);
}

TEST(RecordedRewards, ThinkFormat) {
  TRL_NEED_GOLDEN(kCases);
  int run = 0;
  for (const base::Json& item : test::golden_json(kCases)["cases"]) {
    if (item["function"] != "think_format_reward") continue;
    const std::string text = item["completion"];
    expect_recorded(test::score_text(*named_reward("think_format_reward"), text), item["reward"], item);
    ++run;
  }
  EXPECT_EQ(run, 54);
}

TEST(RecordedRewards, LengthsAndRepetitions) {
  TRL_NEED_GOLDEN(kCases);
  int run = 0;
  for (const base::Json& item : test::golden_json(kCases)["cases"]) {
    if (item["function"] != "get_soft_overlong_punishment" &&
        item["function"] != "get_repetition_penalty_reward")
      continue;
    expect_recorded(test::score_ids(*named_reward(spec_of(item)), ids_of(item)), item["reward"], item);
    ++run;
  }
  EXPECT_EQ(run, 73);
}

TEST(RecordedRewards, CosineScaled) {
  TRL_NEED_GOLDEN(kCases);
  int run = 0;
  for (const base::Json& item : test::golden_json(kCases)["cases"]) {
    if (item["function"] != "get_cosine_scaled_reward") continue;
    const base::Json columns = {{"solution", "42"}};
    const std::vector<int32_t> ids = ids_of(item);
    const Completion completion{
        .text = item["correct"].get<bool>() ? "\\boxed{42}" : "\\boxed{41}", .ids = ids, .columns = &columns};
    expect_recorded(named_reward(spec_of(item))->score({{&completion, 1}}).at(0), item["reward"], item);
    ++run;
  }
  EXPECT_EQ(run, 12);
}

TEST(RecordedRewards, Accuracy) {
  TRL_NEED_GOLDEN(kCases);
  const auto cosine = named_reward("get_cosine_scaled_reward(max_len=100)");
  const auto reasoning = named_reward("reasoning_accuracy_reward");
  const std::vector<int32_t> ids(37, 1);
  int run = 0;
  for (const base::Json& item : test::golden_json(kCases)["cases"]) {
    if (item["function"] != "accuracy_reward") continue;
    const base::Json columns = {{"solution", item["solution"]}};
    const std::string text = item["completion"];
    expect_recorded(test::accuracy(item["solution"].get<std::string>(), text), item["reward"], item);
    expect_recorded(test::score_text(*reasoning, "<think>hm</think>" + text, columns),
                    item["reasoning_accuracy_reward_with_think"], item);
    expect_recorded(test::score_text(*reasoning, "<think>" + text, columns),
                    item["reasoning_accuracy_reward_unfinished_think"], item);
    const Completion completion{.text = text, .ids = ids, .columns = &columns};
    expect_recorded(cosine->score({{&completion, 1}}).at(0), item["cosine_scaled_reward_max_len100_len37"],
                    item);
    ++run;
  }
  EXPECT_EQ(run, 21);
}

struct Difference {
  const char *solution, *completion;
  double ours;
};

// Where this project differs from math_verify, with the reason.
const std::vector<Difference> kDifferences = {
    // rounding of floats: equal within their error
    {"$\\sqrt{8}$", "\\boxed{8^{0.5}}", 1},
    {"$\\sqrt{2}$", "\\boxed{2^{0.5}}", 1},
    {"$0.1+0.2$", "\\boxed{\\frac{3}{10}}", 1},
    {"$123456789012$", "\\boxed{1.23456789012\\times10^{11}}", 1},
    // relations that say the same
    {"$1<x<2$", "\\boxed{2>x>1}", 1},
    {"$2\\le x<5$", "\\boxed{5>x\\ge 2}", 1},
    {"$x>1$", "\\boxed{2x>2}", 1},
    {"$x>\\frac{1}{2}$", "\\boxed{2x>1}", 1},
    {"$x=\\frac{1}{2}$", "\\boxed{2x=1}", 1},
    // an intersection is computed
    {"$(1,3)\\cap(2,4)$", "\\boxed{(2,3)}", 1},
    // ab is not a unit, and true is a word like any other
    {"$\\ln(ab)$", "\\boxed{\\ln ab}", 1},
    {"$\\text{True}$", "\\boxed{true}", 1},
    // signs beyond ASCII in plain arithmetic
    {"16\u00f72", "\\boxed{8}", 1},
    {"4\u00d72", "\\boxed{8}", 1},
    // integrals, limits and derivatives are not read
    {"$\\lim_{x\\to 0} x$", "\\boxed{0}", 0},
    {"$\\int_0^1 x dx$", "\\boxed{\\frac{1}{2}}", 0},
    {"$\\frac{d}{dx}x^2$", "\\boxed{2x}", 0},
};

TEST(RecordedRewards, AnswersThatMathVerifyAccepts) {
  TRL_NEED_GOLDEN("rewards/answers.json");
  std::map<std::pair<std::string, std::string>, double> differences;
  for (const Difference& difference : kDifferences)
    differences[{difference.solution, difference.completion}] = difference.ours;
  size_t run = 0, differ = 0;
  for (const base::Json& item : test::golden_json("rewards/answers.json")) {
    const auto solution = item[0].get<std::string>();
    const auto completion = item[1].get<std::string>();
    const double got = test::accuracy(solution, completion);
    const auto other = differences.find({solution, completion});
    const double want = other == differences.end() ? recorded(item[2]) : other->second;
    EXPECT_TRUE(std::isnan(want) ? std::isnan(got) : got == want) << got << " for " << item.dump();
    if (other != differences.end()) {
      EXPECT_NE(recorded(item[2]), want) << "no difference: " << item.dump();
      ++differ;
    }
    ++run;
  }
  EXPECT_EQ(run, 2226U);
  EXPECT_EQ(differ, kDifferences.size());
}

}  // namespace
}  // namespace trl::reward
