// Parquet files that are written, in a build that has Arrow; read again as rows.
#ifdef TRL_ARROW
#include <gtest/gtest.h>

#include "base/error.h"
#include "io/arrow.h"
#include "io/temporary_file.h"
#include "support/error_of.h"

namespace trl::io {
namespace {

using base::Json;

std::vector<Json> read_again(const std::string& path) {
  ParquetFile file(path);
  ArrowArrayStream stream{};
  file.read(&stream);
  ArrowRows rows(&stream);
  std::vector<Json> out;
  for (std::string json; rows.next(json);) out.push_back(Json::parse(json));
  return out;
}

TEST(WriteParquet, RowsComeBackWithTheirTypes) {
  const test::TemporaryDirectory directory;
  const std::string path = directory.file("rows.parquet");
  const std::vector<Json> rows = {
      Json::parse(R"({"step": 3, "prompt": [{"role": "user", "content": "a"}, {"role": "b", "content": "c"}],
                      "points": 1.5, "none": null, "right": true, "mixed": 1})"),
      Json::parse(
          R"({"step": 4, "prompt": [], "points": null, "none": null, "right": false, "mixed": "x"})")};
  write_parquet(path, rows);
  std::vector<Json> wanted = rows;
  wanted[0]["mixed"] = "1";
  EXPECT_EQ(read_again(path), wanted);
}

TEST(WriteParquet, WhatSomeRowsLackIsNull) {
  const test::TemporaryDirectory directory;
  const std::string path = directory.file("rows.parquet");
  write_parquet(path, std::vector<Json>{{{"a", 1}}, {{"b", {{"c", "x"}}}}});
  EXPECT_EQ(read_again(path), (std::vector<Json>{Json::parse(R"({"a": 1, "b": null})"),
                                                 Json::parse(R"({"a": null, "b": {"c": "x"}})")}));
}

TEST(WriteParquet, AFolderThatIsNotThereIsAnError) {
  const test::TemporaryDirectory directory;
  const std::string path = directory.file("none/rows.parquet");
  EXPECT_TRUE(test::error_of([&] { write_parquet(path, {}); }).second.find(path) != std::string::npos);
}

}  // namespace
}  // namespace trl::io
#endif
