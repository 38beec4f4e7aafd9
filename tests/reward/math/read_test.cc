// Where an answer is found, and what is read there.
#include "reward/math/read.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "reward/math/boxed.h"
#include "reward/math/clean.h"
#include "reward/math/plain_numbers.h"
#include "reward/math/regions.h"

namespace trl::reward::math {
namespace {

TEST(Boxed, LastOneWithThoseThatBelongToIt) {
  EXPECT_EQ(last_boxed("\\boxed{7} or \\boxed{8}"), "7,8");
  EXPECT_EQ(last_boxed("\\boxed{7}. Much later: \\boxed{8}"), "8");
  EXPECT_EQ(last_boxed("\\boxed{7} is the one, and the other is \\boxed{8}"), "7,8");
  EXPECT_EQ(last_boxed("\\boxed{8} \\boxed{8}"), "8");
  EXPECT_EQ(last_boxed("\\boxed{\\frac{1}{2}} {x}"), "\\frac{1}{2}");
  EXPECT_EQ(last_boxed("\\boxed { 3 }"), "3");
  EXPECT_EQ(last_boxed("\\fbox{3}"), "3");
  EXPECT_EQ(last_boxed("\\boxed{3"), "{3");
  EXPECT_EQ(last_boxed("none"), "none");
  EXPECT_EQ(boxed_contents("x = \\boxed{1} text that parts them, for it is long \\boxed{2}"), "1,2");
  EXPECT_EQ(boxed_contents("x^2"), "x^2");
}

TEST(Regions, DelimitersOfFormulas) {
  const std::string text =
      "a $x$ b $$y\nz$$ c \\[u\\] d \\(v\\) e [w] f -\\frac{1}{-2,5} 5$ no \\$ no $no\nno$";
  std::string found;
  for (const Region& region : Regions(text).all(false))
    for (const Formula& formula : region.formulas) found += std::string(formula.latex) + "|";
  EXPECT_EQ(found, "x|y\nz|u|v|w|-\\frac{1}{-2,5}|");
}

TEST(Regions, JoinedOnesAndPercentages) {
  const std::vector<Region> all = Regions("$1$, $2$ and $3$ or\n$4$% then $5$ percent").all(false);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].formulas.size(), 4U);
  EXPECT_TRUE(all[0].formulas[3].percent);
  EXPECT_FALSE(all[0].formulas[2].percent);
  EXPECT_TRUE(all[1].formulas[0].percent);
}

TEST(PlainNumbers, WhatIsANumber) {
  const auto text_of = [](std::string_view text) {
    const auto value = plain_number_at(text, 0);
    return value ? value->text + (value->percent ? "%" : "") : std::string("none");
  };
  EXPECT_EQ(text_of(" 1,234,567.50 m"), "1234567.50");
  EXPECT_EQ(text_of("1 234 5"), "1234");
  EXPECT_EQ(text_of("12,5"), "12.5");
  EXPECT_EQ(text_of("1234,567"), "1234.567");
  EXPECT_EQ(text_of("=-007"), "-7");
  EXPECT_EQ(text_of(" **.5**"), "0.5");
  EXPECT_EQ(text_of("\u20ac12"), "12");
  EXPECT_EQ(text_of("50 percent"), "50%");
  EXPECT_EQ(text_of("x5"), "none");
  EXPECT_EQ(text_of("-"), "none");
  EXPECT_EQ(text_of("."), "none");
  EXPECT_EQ(text_of(""), "none");
  EXPECT_FALSE(plain_number_at("x5", 1)) << "a letter is before it";
}

TEST(PlainNumbers, WhatIsArithmetic) {
  const auto text_of = [](std::string_view text) {
    const auto value = plain_arithmetic_at(text, 0);
    return value ? value->text : std::string("none");
  };
  EXPECT_EQ(text_of("48/2 clips"), "48/2");
  EXPECT_EQ(text_of("3 + 5."), "3 + 5");
  EXPECT_EQ(text_of("-(2*3)^2, so"), "-(2*3)^2");
  EXPECT_EQ(text_of("3 4 5"), "none") << "no operator";
  EXPECT_EQ(text_of("3+x"), "none") << "ends at a letter";
  EXPECT_EQ(text_of("12"), "none");
}

std::string clean(std::string_view latex) { return clean_latex(latex, Dialect::latex); }

TEST(Clean, LookAndWords) {
  EXPECT_EQ(clean("\\dfrac{1}{2}"), "\\frac{1}{2}");
  EXPECT_EQ(clean("\\left( 1{,}2 \\right]"), "( 1,2 ]");
  EXPECT_EQ(clean("\\left\\{1\\right\\}"), "\\{1\\}");
  EXPECT_EQ(clean("$\\$5$"), "5");
  EXPECT_EQ(clean("1 and 2 or 3"), "1, 2, 3");
  EXPECT_EQ(clean("1, and 2"), "1, 2");
  EXPECT_EQ(clean("sand\\text{ or }2"), "sand,2");
  EXPECT_EQ(clean("50 percent"), "50 \\%");
  EXPECT_EQ(clean("\\mathrm{Yes}"), "\\text{Yes}");
  EXPECT_EQ(clean("f'(x)\n\t1"), "f(x)  1");
  EXPECT_EQ(clean("\\\\frac{1}{2}"), "\\frac{1}{2}");
  EXPECT_EQ(clean("a \\\\ b"), "a \\\\ b");
  EXPECT_EQ(clean("\\"), "\\");
  EXPECT_EQ(clean(""), "");
  EXPECT_EQ(clean("sqrt(2)"), "sqrt(2)");
  EXPECT_EQ(clean_latex("sqrt(2)", Dialect::lenient), "\\sqrt(2)");
}

TEST(Clean, Units) {
  EXPECT_EQ(clean("12\\text{ cm}^2"), "12");
  EXPECT_EQ(clean("12 \\mathrm{~m}"), "12");
  EXPECT_EQ(clean("12 sq inches"), "12");
  EXPECT_EQ(clean("5cm"), "5");
  EXPECT_EQ(clean("\\frac{1}{2} hours"), "\\frac{1}{2}");
  EXPECT_EQ(clean("\\text{cm}"), "\\text{cm}") << "all of the text";
  EXPECT_EQ(clean("cm"), "cm");
  EXPECT_EQ(clean("xcm"), "xcm");
  EXPECT_EQ(clean("3 + 2t"), "3 + 2t") << "not a unit";
}

TEST(Read, CompletionsNeedABoxOrWords) {
  EXPECT_EQ(read_completion("\\boxed{8}")->text, "8");
  EXPECT_EQ(read_completion("answer: $7$ or \\boxed{8}")->text, "8");
  EXPECT_EQ(read_completion("The answer is $7$. The final answer is $8$.")->text, "8");
  EXPECT_FALSE(read_completion("$8$"));
  EXPECT_FALSE(read_completion("The answer is 8"));
  EXPECT_FALSE(read_completion(""));
  EXPECT_FALSE(read_completion("\\boxed{\\sqrt2}")->value) << "\\sqrt needs its braces";
}

TEST(Read, SameTextsCountIfTheyCannotBeRead) {
  const auto same = [](std::string_view answer) {
    return same_reading(*read_solution(fmt::format("${}$", answer)),
                        *read_completion(fmt::format("\\boxed{{{}}}", answer)));
  };
  EXPECT_TRUE(same("\\int_0^1 x dx"));
  EXPECT_TRUE(same("\\frac{1}{0}"));
  EXPECT_FALSE(same("\\sqrt2")) << "of the solution alone it is read";
}

TEST(Read, SolutionsMayBeAnything) {
  EXPECT_EQ(read_solution("#### 72")->text, "72");
  EXPECT_EQ(read_solution("It is 5, I think, or $7$")->text, "7");
  EXPECT_EQ(read_solution("The answer is 5 because 2 + 3 = 6")->text, "6") << "the last = of the line";
  EXPECT_TRUE(read_solution("$\\sqrt2$")->value);
  EXPECT_FALSE(read_solution("\\sqrt{8}"));
  EXPECT_FALSE(read_solution("no number"));
  EXPECT_FALSE(read_solution("$\\sum_{i=1}^n i$")->value) << "1 is not the answer";
  EXPECT_TRUE(read_solution("$8.$")->value);
  EXPECT_EQ(read_solution("5, then $\\int$")->text, "\\int") << "the text of the first place that was tried";
  EXPECT_TRUE(read_solution("5, then $\\int$")->value) << "and the value of the first that can be read";
}

}  // namespace
}  // namespace trl::reward::math
