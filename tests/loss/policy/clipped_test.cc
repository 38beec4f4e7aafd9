// The clipped objective at its borders, and the shares of clipped ratios.
#include "loss/policy/clipped.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace trl::loss {
namespace {

double slope_at(double ratio, double advantage, const Clip& clip, std::optional<double> cap = {}) {
  return clipped(Dual::variable(ratio, 0), advantage, clip, cap).by[0];
}

// Without a range, the first step still learns: at the border, the ratio counts with its slope, as in torch.
TEST(Clipped, KeepsItsSlopeAtTheBorders) {
  EXPECT_EQ(slope_at(1, 2, {0, 0}), -2);
  EXPECT_EQ(slope_at(1, -2, {0, 0}), 2);
  EXPECT_EQ(slope_at(1, -2, {0, 0}, 1.0), 2);
  EXPECT_EQ(slope_at(1.25, 2, {0.25, 0.25}), -2);
}

TEST(Clipped, LearnsNothingOutside) {
  const Clip clip = {0.2, 0.3};
  EXPECT_EQ(slope_at(1.31, 2, clip), 0);
  EXPECT_EQ(slope_at(1.31, -2, clip), 2);
  EXPECT_EQ(slope_at(0.79, -2, clip), 0);
  EXPECT_EQ(slope_at(0.79, 2, clip), -2);
  EXPECT_EQ(slope_at(3, -2, clip, 2.5), 0);
  EXPECT_TRUE(std::isnan(clipped(Dual(NAN), 1, clip).value));
}

std::map<std::string, double> shares(const std::vector<Clippings>& rows) {
  Metrics metrics;
  add_clip_ratios(rows, metrics);
  return {metrics.begin(), metrics.end()};
}

TEST(Clipped, RowsWithoutRatiosDoNotCount) {
  const auto got = shares({{1, 0, 2}, {0, 0, 0}, {3, 1, 4}});
  EXPECT_EQ(got.at("clip_ratio/low_mean"), 4.0 / 6);
  EXPECT_EQ(got.at("clip_ratio/high_mean"), 1.0 / 6);
  EXPECT_EQ(got.at("clip_ratio/region_mean"), 5.0 / 6);
  EXPECT_EQ(got.at("clip_ratio/low_min"), 0.5);
  EXPECT_EQ(got.at("clip_ratio/high_max"), 0.25);
  for (const auto& [name, value] : shares({{0, 0, 0}})) {
    const bool extreme = name == "clip_ratio/low_min" || name == "clip_ratio/high_max";
    EXPECT_TRUE(extreme ? std::isnan(value) : value == 0) << name << value;
  }
}

}  // namespace
}  // namespace trl::loss
