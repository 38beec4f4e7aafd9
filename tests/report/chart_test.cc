// The parts of a line chart.
#include "report/chart.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/text/number.h"

namespace trl::report {
namespace {

TEST(Chart, ticks_are_round) {
  EXPECT_EQ(round_ticks(0, 10, 5), (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(round_ticks(6.03, 6.7, 5), (std::vector<double>{6.2, 6.4, 6.6000000000000005}));
  EXPECT_EQ(base::short_number(round_ticks(6.03, 6.7, 5)[2], 6), "6.6");
  EXPECT_EQ(round_ticks(0, 2e-5, 4).size(), 5u);
  EXPECT_EQ(base::short_number(1e-5, 6), "1e-05");
  EXPECT_EQ(base::short_number(123456, 6), "123456");
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
}  // namespace trl::report
