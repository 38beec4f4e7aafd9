// Rounding to bfloat16.
#include "base/arithmetic/bfloat16.h"

#include <gtest/gtest.h>

#include <bit>

namespace trl::base {
namespace {

TEST(Bfloat16, RoundsToNearest) {
  const auto rounded = [](uint32_t bits) { return to_bf16(std::bit_cast<float>(bits)).bits; };
  EXPECT_EQ(to_bf16(1.0f).bits, 0x3f80);
  EXPECT_EQ(to_bf16(3.4e38f).bits, 0x7f80);  // beyond the largest: infinity
  EXPECT_EQ(rounded(0x3f808000u), 0x3f80);   // ties to even
  EXPECT_EQ(rounded(0x3f818000u), 0x3f82);
  EXPECT_EQ(rounded(0x3f808001u), 0x3f81);
  EXPECT_EQ(rounded(0x7f800001u), 0x7fc0);  // a NaN stays one
  EXPECT_EQ(rounded(0xffffffffu), 0xffff);
  EXPECT_EQ(to_float(bf16{0xc020}), -2.5f);
}

}  // namespace
}  // namespace trl::base
