// The grammar: what is read, what it becomes, and what is not read.
#include "reward/math/parse.h"

#include <gtest/gtest.h>

#include "reward/math/equal.h"
#include "reward/math/sample.h"

namespace trl::reward::math {
namespace {

double value_of(std::string_view latex, Dialect dialect = Dialect::latex) {
  const std::optional<Node> node = parse(latex, dialect);
  EXPECT_TRUE(node && is_expression(*node)) << latex;
  return node && is_expression(*node) ? sample(*node, 0).value.real() : 0;
}

TEST(Parse, Arithmetic) {
  EXPECT_EQ(value_of("1+2*3-4"), 3);
  EXPECT_EQ(value_of("-2^2"), -4);
  EXPECT_EQ(value_of("2^3^2"), 64) << "from the left, as the grammar of latex2sympy2 has it";
  EXPECT_EQ(value_of("--+-3"), -3);
  EXPECT_EQ(value_of("6/2/3"), 1);
  EXPECT_EQ(value_of("2\\cdot-3"), -6);
  EXPECT_EQ(value_of("3!!"), 720);
  EXPECT_EQ(value_of("7\\mod 4"), 3);
  EXPECT_EQ(value_of("-7 \\mod 4"), 1);
  EXPECT_EQ(value_of("7 \\mod -4"), -1);
  EXPECT_EQ(value_of("|2-5|"), 3);
  EXPECT_EQ(value_of("||-2|-5|"), 3);
  EXPECT_EQ(value_of("\\lfloor 3.7\\rfloor+\\lceil 3.2\\rceil"), 7);
  EXPECT_EQ(value_of("\\binom{5}{2}"), 10);
  EXPECT_EQ(value_of("\\max(1,7,3)-\\min(2,4)"), 5);
  EXPECT_EQ(value_of("\\gcd(12,18)\\cdot\\operatorname{lcm}(4,6)"), 72);
  EXPECT_EQ(value_of("1.5E3"), 1500);
  EXPECT_EQ(value_of("90^\\circ"), 90);
  EXPECT_EQ(value_of("12_{8}"), 12);
  EXPECT_DOUBLE_EQ(value_of("\\sqrt[3]{27}"), 3);
  EXPECT_DOUBLE_EQ(value_of("\\log_2 8"), 3);
  EXPECT_DOUBLE_EQ(value_of("\\log 100+\\ln e"), 3);
  EXPECT_DOUBLE_EQ(value_of("\\sin^2 1 + \\cos^2 1"), 1);
  EXPECT_DOUBLE_EQ(value_of("\\tan^{-1}(1)"), value_of("\\frac{\\pi}{4}"));
}

TEST(Parse, ProductsWithoutASign) {
  EXPECT_EQ(value_of("2(3+4)"), 14);
  EXPECT_EQ(value_of("6/2(1+2)"), 1) << "2(1+2) binds more tightly";
  EXPECT_EQ(value_of("2\\frac{1}{2}"), 2.5) << "a mixed number";
  EXPECT_EQ(value_of("-2\\frac{1}{2}"), -2.5);
  EXPECT_EQ(value_of("2\\cdot\\frac{1}{2}"), 1);
  EXPECT_EQ(value_of("2\\frac{1}{2}\\frac{1}{3}"), 1.0 / 3);
  EXPECT_TRUE(same_answer(*parse("x(x+1)", Dialect::latex), *parse("x^2+x", Dialect::latex)));
  EXPECT_TRUE(same_answer(*parse("n(n-1)!", Dialect::latex), *parse("n!", Dialect::latex)));
  EXPECT_TRUE(same_answer(*parse("x(x+1)^2", Dialect::latex), *parse("x^3+2x^2+x", Dialect::latex)));
  EXPECT_TRUE(same_answer(*parse("e^x(x+1)", Dialect::latex), *parse("xe^x+e^x", Dialect::latex)));
  EXPECT_EQ(parse("f(x)", Dialect::latex)->kind, Kind::application);
  EXPECT_EQ(parse("f(x,y)", Dialect::latex)->kind, Kind::application);
  EXPECT_EQ(parse("f(2x)", Dialect::latex)->kind, Kind::multiply);
}

TEST(Parse, SetsAndRelations) {
  const auto kind = [](std::string_view latex) { return parse(latex, Dialect::latex)->kind; };
  EXPECT_EQ(kind("(1,2)"), Kind::interval);
  EXPECT_EQ(kind("(2,1)"), Kind::tuple);
  EXPECT_EQ(kind("[1,1]"), Kind::interval);
  EXPECT_EQ(kind("(1,2,3)"), Kind::tuple);
  EXPECT_EQ(kind("(1;2)"), Kind::tuple);
  EXPECT_EQ(kind("1,2"), Kind::finite_set);
  EXPECT_EQ(kind("\\{1\\}"), Kind::finite_set);
  EXPECT_EQ(kind("\\emptyset"), Kind::finite_set);
  EXPECT_EQ(kind("1\\pm 2"), Kind::finite_set);
  EXPECT_EQ(kind("[1,2)\\cup\\{3\\}"), Kind::set_union);
  EXPECT_EQ(kind("1<x\\le 2"), Kind::relation);
  EXPECT_EQ(kind("x=1,2"), Kind::relation);
  EXPECT_EQ(kind("x=1,y=2"), Kind::finite_set);
  EXPECT_EQ(kind("x\\in\\mathbb{Z}"), Kind::relation);
  EXPECT_EQ(kind("x\\approx 3"), Kind::number);
  EXPECT_EQ(kind("\\begin{pmatrix}1&2\\\\3&4\\\\\\end{pmatrix}"), Kind::matrix);
  EXPECT_EQ(parse("1,2;3,4", Dialect::latex)->children[1].kind, Kind::tuple);
}

TEST(Parse, Dialects) {
  EXPECT_EQ(value_of("\\frac12", Dialect::lenient), 0.5);
  EXPECT_EQ(value_of("\\frac{16}2", Dialect::lenient), 8);
  EXPECT_EQ(value_of("\\sqrt4x^(0)", Dialect::lenient), 2);
  EXPECT_EQ(value_of("2^-1+3**2*(4-2)", Dialect::plain), 18.5);
  EXPECT_EQ(value_of("2**3**2", Dialect::plain), 512);
  for (const char* strict : {"\\frac12", "\\frac{1}2", "\\sqrt4", "\\sqrt x", "x^(2)", "x^-1"})
    EXPECT_FALSE(parse(strict, Dialect::latex)) << strict;
  for (const char* not_plain : {"2x", "2(3)", "\\pi", "|2|", "2%", "{2}", "[2]", "x"})
    EXPECT_FALSE(parse(not_plain, Dialect::plain)) << not_plain;
}

TEST(Parse, OtherTextIsNotRead) {
  for (const char* latex : {"",
                            "+",
                            "1+",
                            "*2",
                            "(",
                            ")",
                            "(1",
                            "1)",
                            "(1,2",
                            "[1,2,3)",
                            "()",
                            "{",
                            "}",
                            "\\{1",
                            "\\frac",
                            "\\frac{1}",
                            "\\frac{1}{",
                            "\\sqrt{",
                            "\\sqrt[3",
                            "x^",
                            "x^{",
                            "x_",
                            "x_{1",
                            "|x",
                            "\\sin",
                            "\\log_",
                            "=5",
                            "5=",
                            "1<",
                            "5.",
                            "1..2",
                            "\\unknown",
                            "\\int x",
                            "x\\%",
                            "1 \\pm",
                            "\\begin{pmatrix}1&2\\\\3\\end{pmatrix}",
                            "\\begin{pmatrix}1",
                            "\\begin",
                            "\\end{pmatrix}",
                            "\\max",
                            "\\max(",
                            "\\max{1}",
                            "[1,2]+3",
                            "(1,2)\\cdot 2",
                            "\\{1\\}\\cup 2",
                            "x \\in 3",
                            "\\\\",
                            "1&2",
                            "#",
                            "\xff",
                            "\u221a2",
                            "\\operatorname{foo} x",
                            "1,,2",
                            ",1",
                            "1;",
                            "2^{(1,2)}",
                            "(x=1)+2"})
    EXPECT_FALSE(parse(latex, Dialect::latex)) << latex;
}

TEST(Parse, Limits) {
  const auto repeated = [](std::string_view piece, size_t count) {
    std::string out;
    for (size_t i = 0; i < count; ++i) out += piece;
    return out;
  };
  EXPECT_TRUE(parse(repeated("(", 20) + "1" + repeated(")", 20), Dialect::latex));
  EXPECT_FALSE(parse(repeated("(", 100) + "1" + repeated(")", 100), Dialect::latex));
  EXPECT_TRUE(parse("1" + repeated("/2", 200), Dialect::latex));
  EXPECT_FALSE(parse("1" + repeated("/2", 300), Dialect::latex));
  EXPECT_FALSE(parse("1" + repeated("!", 300), Dialect::latex));
  EXPECT_TRUE(parse("1" + repeated(",1", 31), Dialect::latex));
  EXPECT_FALSE(parse("1" + repeated(",1", 32), Dialect::latex));
  EXPECT_TRUE(parse(repeated("1", kMaxAnswer), Dialect::latex));
  EXPECT_FALSE(parse(repeated("1", kMaxAnswer + 1), Dialect::latex));
}

}  // namespace
}  // namespace trl::reward::math
