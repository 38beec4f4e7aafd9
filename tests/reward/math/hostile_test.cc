// Texts that would take long if any step were quadratic, and bytes that are not UTF-8.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <random>
#include <string>
#include <utility>

#include "reward/math/read.h"
#include "reward/score_one.h"

namespace trl::reward::math {
namespace {

constexpr size_t kLong = 60'000;  // bytes
constexpr double kBrief = 30;     // milliseconds: a quadratic step takes a second for such a text
constexpr double kLinear = 9;     // the most that `growth` may be

std::string repeated(std::string_view piece, size_t bytes = kLong) {
  std::string out;
  while (out.size() < bytes) out += piece;
  return out;
}

// Milliseconds of this process's time; other programs do not count.
double time_of(const std::string& solution, const std::string& completion) {
  const std::clock_t begin = std::clock();
  test::accuracy(solution, completion);
  return 1e3 * static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
}

// How much longer four times the text takes: about 4 if each step is linear, 16 if one is quadratic. `write`
// makes a text of some bytes, as {solution, completion}. What takes a few milliseconds at full length counts
// as linear.
template <typename Write>
double growth(const Write& write) {
  const auto least = [&](size_t bytes) {
    const auto [solution, completion] = write(bytes);
    double best = time_of(solution, completion);
    for (int again = 0; again < 2 && best > kBrief; ++again)
      best = std::min(best, time_of(solution, completion));
    return best;
  };
  const double whole = least(kLong);
  return whole < kBrief ? 4 : whole / least(kLong / 4);
}

// Milliseconds for an expression that is short. Those that would grow without bound never end.
constexpr double kMost = 2000;

TEST(HostileAnswers, LongCompletions) {
  for (const char* piece : {"(",
                            "\\boxed{",
                            "\\boxed{1}",
                            "\\boxed{1} and ",
                            "\\boxed",
                            "$",
                            "$$",
                            "$ ",
                            "\\[",
                            "\\(",
                            "\\[\\\\]",
                            " [",
                            " [x",
                            "{",
                            "}",
                            "\\{",
                            "answer",
                            "answer: ",
                            "answer $",
                            "answer:$x",
                            "answer \\[",
                            "final answer",
                            "final answer is ",
                            "final answer is $",
                            "final answer is is is ",
                            "\\frac{",
                            "\\frac{1}{2}",
                            "\\fbox{",
                            "\n",
                            "   ",
                            "1 ",
                            "\\",
                            "\\\\",
                            "\\$",
                            "\xff",
                            "\xf0\x9f",
                            "and ",
                            "$x$ and ",
                            "$x$, "}) {
    for (const auto& [before, after] :
         {std::pair("", ""), {"", "\\boxed{42}"}, {"answer: $", "$"}, {"\\boxed{", "}"}})
      EXPECT_LT(
          growth([&](size_t bytes) { return std::pair("42", before + repeated(piece, bytes) + after); }),
          kLinear)
          << before << piece << after;
  }
}

TEST(HostileAnswers, LongSolutions) {
  for (const char* piece : {"1 ", "1+", "1", "1,111", "=1", " $", "$x", " 1/2 3-", "answer: 1 = ", "answer =",
                            "$\\int$ ", "1 1+ ", "final answer ", "(1", " **", "\xc3\x97"})
    EXPECT_LT(growth([&](size_t bytes) { return std::pair(repeated(piece, bytes), "\\boxed{42}"); }), kLinear)
        << piece;
}

TEST(HostileAnswers, ExpressionsThatAreShort) {
  const auto nested = [](std::string_view open, std::string_view close, size_t count) {
    std::string out;
    for (size_t i = 0; i < count; ++i) out += open;
    out += "x";
    for (size_t i = 0; i < count; ++i) out += close;
    return out;
  };
  for (const std::string& answer : {nested("(", ")", 20),
                                    nested("x(", ")", 20),
                                    nested("x(", ")", 300),
                                    nested("2^{", "}", 20),
                                    nested("2^{", "}", 500),
                                    nested("|", "|", 20),
                                    nested("|x+", "|", 20),
                                    nested("\\sqrt{", "}", 20),
                                    nested("\\frac{1}{", "}", 20),
                                    nested("{", "}", 900),
                                    nested("\\{", "\\}", 20),
                                    nested("\\text{", "}", 300),
                                    nested("\\sin ", "", 300),
                                    nested("-", "", 2000),
                                    nested("\\left(", "", 300),
                                    std::string("10^{10^{10^{10}}}"),
                                    std::string("9^{9^{9^{9}}}"),
                                    std::string("99999999999!"),
                                    std::string("3!!!!!!!!"),
                                    std::string("\\binom{10^{12}}{10^{11}}"),
                                    std::string("\\binom{10^{12}}{999}"),
                                    std::string("\\gcd(10^{15}, 10^{14}+1)"),
                                    std::string("1E99999"),
                                    std::string("1E-99999"),
                                    std::string("1E99999999999999999999"),
                                    repeated("9", 2000),
                                    "0." + repeated("3", 2000),
                                    repeated("x+", 2000) + "x",
                                    repeated("(x+1)", 2000),
                                    repeated("1,", 60) + "1",
                                    repeated("(1,2),", 300) + "(1,2)",
                                    repeated("[1,2]\\cup", 1500) + "[3,4]",
                                    repeated("x<", 1500) + "x",
                                    repeated("x=", 1500) + "x",
                                    repeated("x!", 500),
                                    repeated("\\sin x", 1500)}) {
    const std::string boxed = "\\boxed{" + answer + "}";
    EXPECT_LT(time_of("$" + answer + "$", boxed), kMost) << answer.substr(0, 60);
    EXPECT_LT(time_of("$" + answer + "$", "\\boxed{x}"), kMost) << answer.substr(0, 60);
    EXPECT_LT(time_of("$x$", boxed), kMost) << answer.substr(0, 60);
  }
}

TEST(HostileAnswers, ManyElements) {
  std::string ascending = "0", descending = "31";
  for (int i = 1; i < 32; ++i) {
    ascending += fmt::format(",\\sqrt{{{}}}", i);
    descending += fmt::format(",\\sqrt{{{}}}", 31 - i);
  }
  EXPECT_LT(time_of("$" + ascending + "$", "\\boxed{" + descending + "}"), kMost);
}

TEST(HostileAnswers, RandomPieces) {
  constexpr std::string_view kPieces[] = {"\\frac",
                                          "\\sqrt",
                                          "{",
                                          "}",
                                          "(",
                                          ")",
                                          "[",
                                          "]",
                                          "\\{",
                                          "\\}",
                                          "|",
                                          "^",
                                          "_",
                                          "!",
                                          "+",
                                          "-",
                                          "*",
                                          "/",
                                          ",",
                                          ";",
                                          "=",
                                          "<",
                                          "\\le",
                                          "\\pm",
                                          "\\cup",
                                          "\\in",
                                          "\\pi",
                                          "e",
                                          "x",
                                          "f",
                                          "2",
                                          "0",
                                          "1.5",
                                          "%",
                                          "\\%",
                                          "\\text{a}",
                                          "\\sin",
                                          "\\log",
                                          "\\max",
                                          "\\infty",
                                          "\\begin{pmatrix}",
                                          "\\end{pmatrix}",
                                          "&",
                                          "\\\\",
                                          "\\mathbb{R}",
                                          "\\left",
                                          "\\right",
                                          "\\circ",
                                          " ",
                                          "$",
                                          "\\boxed{",
                                          "\xff",
                                          "\u2212",
                                          "\\approx",
                                          "\\binom",
                                          "\\lfloor",
                                          "\\rfloor",
                                          "=",
                                          ":",
                                          "\\mod",
                                          "."};
  std::mt19937 random(7);
  for (int run = 0; run < 20'000; ++run) {
    std::string answer;
    for (size_t i = random() % 12; i-- > 0;) answer += kPieces[random() % std::size(kPieces)];
    std::string other = answer;
    if (!other.empty()) other.erase(random() % other.size(), 1);
    const double score = test::accuracy("$" + answer + "$", "\\boxed{" + other + "}");
    EXPECT_TRUE(score == 0 || score == 1 || std::isnan(score)) << answer;
  }
}

}  // namespace
}  // namespace trl::reward::math
