// What is the same: exactly where it can be, and up to rounding elsewhere.
#include "reward/math/equal.h"

#include <gtest/gtest.h>

#include <limits>

#include "reward/math/parse.h"
#include "reward/math/real_set.h"
#include "reward/math/sample.h"

namespace trl::reward::math {
namespace {

Node read(std::string_view latex) {
  std::optional<Node> node = parse(latex, Dialect::latex);
  EXPECT_TRUE(node) << latex;
  return node ? *node : Node();
}

bool same(std::string_view a, std::string_view b) { return same_answer(read(a), read(b)); }

TEST(Equal, RationalsOfAnySizeExactly) {
  EXPECT_TRUE(same("2^{100}", "1267650600228229401496703205376"));
  EXPECT_FALSE(same("2^{100}", "1267650600228229401496703205377"));
  EXPECT_TRUE(same("\\frac{10^{400}}{10^{399}}", "10"));
  EXPECT_TRUE(same("100!/98!", "9900"));
  EXPECT_FALSE(same("100!/98!", "9901"));
  EXPECT_TRUE(same("1000!", "1000 \\cdot 999!"));
  EXPECT_TRUE(same("2^{10^{15}}", "4^{5\\cdot 10^{14}}"));
  EXPECT_FALSE(same("2^{10^{15}}", "2^{10^{15}+1}"));
  EXPECT_TRUE(same("\\binom{1000}{500}", "\\frac{1000!}{500!500!}"));
  EXPECT_TRUE(same("0.1+0.2", "0.3"));
  EXPECT_TRUE(same("\\frac{1}{3}+\\frac{1}{6}", "\\frac{1}{2}"));
}

TEST(Equal, RationalFunctionsExactly) {
  EXPECT_TRUE(same("(x+y)^{20}", "(x+y)^{19}(y+x)"));
  EXPECT_FALSE(same("(x+y)^{20}", "(x+y)^{20}+10^{-30}x"));
  EXPECT_TRUE(same("\\frac{x^2-1}{x-1}", "x+1"));
  EXPECT_FALSE(same("x", "y"));
  EXPECT_FALSE(same("x-y", "y-x"));
}

TEST(Equal, OthersUpToRounding) {
  EXPECT_TRUE(same("\\sqrt{2}+\\sqrt{3}", "\\sqrt{5+2\\sqrt{6}}"));
  EXPECT_FALSE(same("\\sqrt{2}+\\sqrt{3}", "\\sqrt{5+2\\sqrt{6}}+10^{-12}"));
  EXPECT_TRUE(same("\\sin(2x)", "2\\sin x\\cos x"));
  EXPECT_TRUE(same("e^{i}", "e^{i}"));
  EXPECT_TRUE(same("e^{I\\pi}", "-1"));
  EXPECT_FALSE(same("\\sqrt{x^2}", "x")) << "symbols may be negative";
  EXPECT_TRUE(same("\\sqrt{x^2}", "|x|"));
  EXPECT_FALSE(same("\\ln(x^2)", "2\\ln x"));
  EXPECT_FALSE(same("(-8)^{1/3}", "-2")) << "the principal root";
  EXPECT_FALSE(same("\\sqrt{10^{20}}", "10^{10}+1"));
}

TEST(Equal, WhatIsNotDefinedEqualsNothing) {
  EXPECT_FALSE(same("\\frac{1}{0}", "\\frac{1}{0}"));
  EXPECT_FALSE(same("\\frac{1}{x-x}", "\\frac{1}{x-x}"));
  EXPECT_FALSE(same("\\frac{1}{0}", "\\infty"));
  EXPECT_TRUE(same("-\\infty", "-\\infty"));
  EXPECT_FALSE(same("-\\infty", "\\infty"));
  EXPECT_FALSE(same("\\infty", "10^{400}"));
  EXPECT_FALSE(same("(-1)!", "(-1)!"));
}

TEST(Equal, DecimalsToSixDigits) {
  EXPECT_TRUE(same("\\frac{1}{3}", "0.333333"));
  EXPECT_TRUE(same("0.333333", "\\frac{1}{3}"));
  EXPECT_FALSE(same("\\frac{1}{3}", "0.33333"));
  EXPECT_TRUE(same("\\pi", "3.141593"));
  EXPECT_FALSE(same("5", "5.0000001")) << "integers are exact";
  EXPECT_TRUE(same("5", "5.000"));
  EXPECT_FALSE(same("x", "0.5"));
  EXPECT_TRUE(same("12345678901234567.5", "12345678901234567.5"));
  EXPECT_FALSE(same("12345678901234567.5", "12345678901234568.5"));
}

TEST(Equal, Percentages) {
  EXPECT_TRUE(same("50\\%", "50"));
  EXPECT_TRUE(same("50\\%", "\\frac{1}{2}"));
  EXPECT_TRUE(same("50\\%", "0.5"));
  EXPECT_FALSE(same("50\\%", "51"));
  EXPECT_FALSE(same("12.5\\%", "12.5"));
}

TEST(Equal, AssignmentsGiveTheirValue) {
  EXPECT_TRUE(same("x=5", "5"));
  EXPECT_TRUE(same("5", "x=5"));
  EXPECT_FALSE(same("x=5", "y=5"));
  EXPECT_TRUE(same("5", "y=5"));
  EXPECT_FALSE(same("2x=10", "10")) << "2x is not a name";
  EXPECT_TRUE(same("x=2+3=5", "x=5"));
  EXPECT_TRUE(same("f(x)=x^2", "x\\cdot x"));
  EXPECT_TRUE(same("x=1,2", "\\{2,1\\}"));
  EXPECT_TRUE(same("(x,y)=(1,2)", "x=1,y=2"));
}

TEST(Equal, Relations) {
  EXPECT_TRUE(same("2y=4x+2", "y-2x-1=0"));
  EXPECT_FALSE(same("y=x", "y=x^2"));
  EXPECT_TRUE(same("x<2", "2>x"));
  EXPECT_TRUE(same("-x<-2", "x>2"));
  EXPECT_FALSE(same("x<2", "x>2"));
  EXPECT_FALSE(same("x<2", "x\\le 2"));
  EXPECT_TRUE(same("x\\ne 2", "2\\ne x"));
  EXPECT_TRUE(same("0<x<y", "y>x>0"));
  EXPECT_FALSE(same("0<x<1", "0<x<2"));
  EXPECT_TRUE(same("1\\le x<2", "[1,2)"));
  EXPECT_TRUE(same("x>1", "(1,\\infty)"));
  EXPECT_FALSE(same("(1,\\infty)", "x>1")) << "an interval is not given by a relation";
  EXPECT_FALSE(same("x^2>1", "(1,\\infty)"));
}

TEST(Equal, SetsAndTuples) {
  EXPECT_TRUE(same("\\{1,2\\}", "\\{2,1,1\\}"));
  EXPECT_FALSE(same("\\{1,2\\}", "\\{1,3\\}"));
  EXPECT_TRUE(same("\\{1,2\\}", "(2,1)"));
  EXPECT_TRUE(same("(1,2)", "1,2"));
  EXPECT_FALSE(same("(2,1)", "1,2")) << "a tuple has an order";
  EXPECT_FALSE(same("(1,2)", "[1,2]"));
  EXPECT_TRUE(same("\\{(1,2),(3,4)\\}", "(3,4),(1,2)"));
  EXPECT_TRUE(same("42", "\\{42\\}"));
  EXPECT_TRUE(same("\\emptyset", "\\{\\}"));
  EXPECT_FALSE(same("\\emptyset", "0"));
  EXPECT_TRUE(same("(a+b,c)", "(b+a,c)"));
  EXPECT_TRUE(same("\\mathbb{Z}", "\\mathbb{Z}"));
  EXPECT_FALSE(same("\\mathbb{Z}", "\\mathbb{N}"));
}

TEST(Equal, SetsOfNumbers) {
  EXPECT_TRUE(same("[1,3]\\cup[2,4]", "[1,4]"));
  EXPECT_TRUE(same("[1,2)\\cup[2,3]", "[1,3]"));
  EXPECT_FALSE(same("[1,2)\\cup(2,3]", "[1,3]"));
  EXPECT_TRUE(same("[1,2)\\cup(2,3]\\cup\\{2\\}", "[1,3]"));
  EXPECT_TRUE(same("\\mathbb{R}\\setminus\\{0\\}", "(-\\infty,0)\\cup(0,\\infty)"));
  EXPECT_TRUE(same("[0,5]\\cap(3,9)", "(3,5]"));
  EXPECT_TRUE(same("[1,1]", "1"));
  EXPECT_TRUE(same("(0,\\pi)\\cup(\\pi,2\\pi)", "(\\pi,2\\pi)\\cup(0,\\pi)"));
  EXPECT_TRUE(same("(-\\infty,a)\\cup(b,\\infty)", "(-\\infty,a)\\cup(b,\\infty)"))
      << "ends with symbols, in order";
}

TEST(Equal, WordsAndMatrices) {
  EXPECT_TRUE(same("\\text{Yes}", "yes"));
  EXPECT_TRUE(same("\\text{(A)}", "A"));
  EXPECT_FALSE(same("\\text{no}", "yes"));
  EXPECT_TRUE(same("\\begin{pmatrix}1&x\\end{pmatrix}", "\\begin{bmatrix}\\frac{2}{2}&x\\end{bmatrix}"));
  EXPECT_FALSE(same("\\begin{pmatrix}1&2\\end{pmatrix}", "\\begin{pmatrix}1\\\\2\\end{pmatrix}"));
}

TEST(Sample, NamesGiveOtherNumbers) {
  for (int point = 0; point < kPoints; ++point) {
    const Sample x = sample(read("x"), point), y = sample(read("y"), point);
    EXPECT_GT(std::abs(x.value - y.value), 1e-3) << point;
    EXPECT_NE(x.residue, y.residue);
  }
  EXPECT_GT(sample(read("x"), 0).value.real(), 0);
  EXPECT_LT(sample(read("x"), 1).value.real(), 0);
}

TEST(Sample, ErrorsBoundTheRounding) {
  const Sample third = sample(read("\\sqrt{2}\\cdot\\sqrt{2}-2"), 0);
  EXPECT_GT(third.error, 0);
  EXPECT_LE(std::abs(third.value), third.error);
  EXPECT_FALSE(agree(sample(read("10^{20}+\\sqrt{2}-10^{20}"), 0), sample(read("\\sqrt{2}"), 0)))
      << "nothing is said where all digits are lost";
}

TEST(RealSet, Constants) {
  EXPECT_EQ(constant_value(read("-\\infty")), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(constant_value(read("\\frac{3}{2}")), 1.5);
  EXPECT_FALSE(constant_value(read("x")));
  EXPECT_FALSE(constant_value(read("I")));
  EXPECT_FALSE(constant_value(read("\\frac{1}{0}")));
}

}  // namespace
}  // namespace trl::reward::math
