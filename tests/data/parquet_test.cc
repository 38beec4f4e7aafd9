// Parquet files, in a build that has Arrow: rows.parquet was written by pyarrow 26 in row groups of three
// rows.
#include <gtest/gtest.h>

#include "base/error.h"
#include "data/source/table.h"
#include "io/temporary_file.h"
#include "support/error_of.h"
#include "support/golden.h"

namespace trl::data {
namespace {

#ifdef TRL_ARROW
TEST(Parquet, NestedRows) {
  const auto parquet = open_file_source(test::golden_path("parquet/rows.parquet"));
  const auto jsonl = open_file_source(test::golden_path("parquet/rows.jsonl"));
  for (int round = 0; round < 2; ++round) {
    Row want, got;
    for (int row = 1; jsonl->next(want); ++row) {
      ASSERT_TRUE(parquet->next(got));
      EXPECT_EQ(got.value, want.value);
      EXPECT_EQ(got.where.text(), parquet->name() + fmt::format(" (row {})", row));
    }
    EXPECT_FALSE(parquet->next(got));
    parquet->rewind();
    jsonl->rewind();
  }
  const auto table = open_file_table(parquet->name(), {});
  EXPECT_EQ(table->size(), 7);
}

TEST(Parquet, WhatIsRefused) {
  const std::string binary = test::golden_path("parquet/binary.parquet");
  EXPECT_TRUE(test::error_of([&] {
                open_file_source(binary);
              }).second.starts_with(binary + ": Arrow column 'blob': a type that is not read"));
  const test::TemporaryDirectory directory;
  const std::string path = directory.write("a.parquet", "PAR1 and no more");
  const auto [status, message] = test::error_of([&] { open_file_source(path); });
  EXPECT_EQ(status, Status::format);
  EXPECT_TRUE(message.starts_with(path + ": not read as Parquet: ")) << message;
  EXPECT_EQ(test::error_of([&] { open_file_source(directory.file("none.parquet")); }).first,
            Status::not_found);
}
#else
TEST(Parquet, IsRefusedWithAWayToConvertIt) {
  const std::string path = test::golden_path("parquet/rows.parquet");
  const auto [status, message] = test::error_of([&] { open_file_source(path); });
  EXPECT_EQ(status, Status::unsupported);
  EXPECT_TRUE(message.ends_with("python3 -c \"import pandas; pandas.read_parquet('" + path +
                                "').to_json('rows.jsonl', orient='records', lines=True)\""))
      << message;
}
#endif

}  // namespace
}  // namespace trl::data
