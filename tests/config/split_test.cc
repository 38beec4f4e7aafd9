// Rows of splits: datasets' own ranges for the same words.
#include "config/dataset/datasets.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/error_of.h"
#include "support/golden.h"

namespace trl::config {
namespace {

TEST(Split, RangesAreThoseOfDatasets) {
  const base::Json cases = test::golden_json("splits/cases.json");
  ASSERT_GE(cases["ranges"].size(), 200u);
  int refused = 0;
  for (const base::Json& one : cases["ranges"]) {
    const auto ranges = [&] {
      base::Json out = base::Json::array();
      for (const SplitPart& part : parse_split("split", one[0].get<std::string>())) {
        const RowRange range = rows_of("split", part, one[1][part.name]);
        out.push_back({part.name, range.from, range.to});
      }
      return out;
    };
    if (one[2].is_null()) {
      EXPECT_EQ(test::error_of(ranges).first, Status::invalid_config) << one;
      ++refused;
      continue;
    }
    base::Json want = one[2];
    for (base::Json& range : want)
      range[2] = std::max(range[1].get<int64_t>(), range[2].get<int64_t>());  // backwards: no row
    EXPECT_EQ(ranges(), want) << one;
  }
  EXPECT_EQ(refused, 7);
}

TEST(Split, WhatDatasetsRefusesIsRefused) {
  for (const base::Json& text : test::golden_json("splits/cases.json")["refused"]) {
    const auto [status, message] = test::error_of([&] { parse_split("split", text.get<std::string>()); });
    EXPECT_EQ(status, Status::invalid_config) << text;
    EXPECT_TRUE(message.starts_with("split: the split '" + text.get<std::string>() + "' is not accepted: "))
        << message;
  }
}

TEST(Split, NamesAloneAreTakenAsTheyAre) {
  for (const std::string name : {"train", "train_sft", "my split-2"}) {
    const std::vector<SplitPart> parts = parse_split("split", name);
    ASSERT_EQ(parts.size(), 1u);
    EXPECT_EQ(parts[0].name, name);
    EXPECT_FALSE(parts[0].sliced());
  }
}

TEST(Split, FewerThanAHundredRowsHaveNoHundredth) {
  const SplitPart part = parse_split("split", "train[:33%](pct1_dropremainder)").front();
  EXPECT_EQ(test::error_of([&] { rows_of("split", part, 99); }).second,
            "split: pct1_dropremainder of 99 rows of 'train' keeps none: a hundredth of fewer than 100 is "
            "rounded down to none");
}

}  // namespace
}  // namespace trl::config
