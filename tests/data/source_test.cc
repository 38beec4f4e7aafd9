// Rows from files, buffers and callbacks, and what each says of bad input.
#include "data/source.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files.h"
#include "support/error_of.h"
#include "support/golden.h"

namespace trl::data {
namespace {

std::unique_ptr<Source> memory(std::string bytes) {
  return open_memory_source("jsonl", std::move(bytes), "m.jsonl");
}

std::vector<std::string> places(Source& source) {
  std::vector<std::string> out;
  for (Row row; source.next(row);) out.push_back(row.where + " " + row.value.dump());
  return out;
}

using test::error_of;

std::string error_in(std::string bytes) {
  const auto [status, message] = error_of([&] { places(*memory(std::move(bytes))); });
  EXPECT_EQ(status, Status::format);
  return message;
}

TEST(Source, LinesArraysAndCallbacksGiveTheSameRows) {
  const auto lines = memory("{\"a\":1}\n\n{\"b\":\"\\u00e9\"}");
  EXPECT_EQ(places(*lines), (std::vector<std::string>{"m.jsonl:1 {\"a\":1}", "m.jsonl:3 {\"b\":\"é\"}"}));
  lines->rewind();
  EXPECT_EQ(places(*lines).size(), 2u);

  const auto array = open_memory_source("json", "[{\"a\":1},\n{\"b\":\"é\"}]", "m.json");
  EXPECT_EQ(places(*array),
            (std::vector<std::string>{"m.json:1 (row 1) {\"a\":1}", "m.json:2 (row 2) {\"b\":\"é\"}"}));
  array->rewind();
  EXPECT_EQ(places(*array).front(), "m.json:1 (row 1) {\"a\":1}");

  int next = 0;
  CallbackRows host;
  host.next = [&](base::Json& row) {
    if (next == 2) return false;
    if (next++ == 0)
      row["a"] = 1;
    else
      row["b"] = "é";
    return true;
  };
  host.rewind = [&] { next = 0; };
  const auto callback = open_callback_source(host);
  EXPECT_EQ(places(*callback), (std::vector<std::string>{"row 1 {\"a\":1}", "row 2 {\"b\":\"é\"}"}));
  callback->rewind();
  EXPECT_EQ(places(*callback).size(), 2u);
}

TEST(Source, MalformedJsonNamesFileLineAndColumn) {
  EXPECT_TRUE(error_in("{\"a\":1}\n{\"a\":}\n").starts_with("m.jsonl:2:6: not valid JSON: "));
  EXPECT_TRUE(error_in("{\"a\":1}\n  {\"a\" 1}\n").starts_with("m.jsonl:2:8: not valid JSON: "));
  EXPECT_TRUE(
      error_in("[{\"a\":1},\n {\"a\":1}, {\"a\":tru}]").starts_with("m.jsonl:2:19: not valid JSON: "));
  EXPECT_TRUE(error_in("{\"a\":\"\\ud800\"}").starts_with("m.jsonl:1:13: not valid JSON: "));
  EXPECT_TRUE(error_in("hello").starts_with("m.jsonl:1:1: not valid JSON: "));
  EXPECT_EQ(error_in("{}\n[1]\n"), "m.jsonl:2: a list where a row (an object) is expected");
  EXPECT_EQ(error_in("[{},\n 5]"), "m.jsonl:2 (row 2): a number where a row (an object) is expected");
}

TEST(Source, CallbackRowsAreChecked) {
  const auto one = [](base::Json value) {
    CallbackRows host;
    host.next = [value](base::Json& row) {
      row = value;
      return true;
    };
    Row row;
    open_callback_source(host)->next(row);
  };
  EXPECT_EQ(error_of([&] { one("text"); }).second, "row 1: a string where a row (an object) is expected");
  EXPECT_EQ(error_of([&] {
              one({{"a", {{"b", "x\xFF"}}}});
            }).second,
            "row 1: invalid UTF-8 at byte 1 of a string");
  base::Json deep = 1;
  for (int i = 0; i < 200; ++i) deep = base::Json::array({std::move(deep)});
  EXPECT_EQ(error_of([&] { one({{"a", deep}}); }).second, "row 1: nested deeper than 128 levels");
}

TEST(Source, FilesThatAreNoDatasets) {
  const std::string directory = testing::TempDir() + "trl_source_test/";
  base::make_directories(directory);
  const auto open = [](const std::string& path) { return error_of([&] { open_file_source(path); }); };
  EXPECT_EQ(open(directory + "none.jsonl").first, Status::not_found);
  EXPECT_NE(
      open(directory + "none.jsonl").second.find(directory + "none.jsonl: cannot be opened: No such file"),
      std::string::npos);
  EXPECT_EQ(open(directory).first, Status::io);
  EXPECT_NE(open(directory).second.find("is a directory; give the file"), std::string::npos);
  for (const std::string name : {"a.parquet", "a.csv", "a.txt", "a.arrow", "a.jsonl.bz2"}) {
    EXPECT_EQ(open(directory + name).first, Status::unsupported) << name;
    EXPECT_NE(open(directory + name).second.find("JSON Lines or one JSON array"), std::string::npos);
  }
  base::write_file(directory + "a.jsonl", std::string("PAR1\x15\x04", 6));
  EXPECT_NE(open(directory + "a.jsonl").second.find("begins as Parquet does"), std::string::npos);
  EXPECT_EQ(error_of([] { open_memory_source("csv", "", "m"); }).first, Status::invalid_argument);
  base::remove_tree(directory);
}

// Every recorded file: what fails while reading there fails here, with file and line.
TEST(Source, RecordedBadFiles) {
  TRL_NEED_GOLDEN("data/bad/index.json");
  const std::map<std::string, std::pair<int64_t, std::string>> want = {
      {"bad_utf8.jsonl", {-1, "bad_utf8.jsonl:6:15: invalid UTF-8: byte 0xff"}},
      {"blank_lines.jsonl", {3, ""}},
      {"bom.jsonl", {5, ""}},
      {"crlf.jsonl", {5, ""}},
      {"empty.jsonl", {0, ""}},
      {"invalid_json_line.jsonl", {-1, "invalid_json_line.jsonl:6:23: not valid JSON"}},
      {"lone_surrogate.jsonl", {-1, "lone_surrogate.jsonl:6:22: not valid JSON"}},
      {"missing_column.jsonl", {4, ""}},
      {"missing_in_some_rows.jsonl", {6, ""}},
      {"no_trailing_newline.jsonl", {5, ""}},
      {"not_an_object.jsonl", {-1, "not_an_object.jsonl:6: a list where a row"}},
      {"null_text.jsonl", {6, ""}},
      {"ok.jsonl.gz", {200, ""}},
      {"ok.jsonl.zst", {200, ""}},
      {"preference_missing_rejected.jsonl", {3, ""}},
      {"truncated.jsonl.gz", {-1, "truncated.jsonl.gz: the gzip stream ends early"}},
      {"truncated.jsonl.zst", {-1, "truncated.jsonl.zst: the zstd stream ends early"}},
      {"unpaired_bad_label.jsonl", {1, ""}},
      {"wrong_type.jsonl", {6, ""}},
      {"wrong_type_messages.jsonl", {1, ""}},
  };
  const base::Json index = test::golden_json("data/bad/index.json");
  EXPECT_EQ(index["files"].size(), want.size());
  for (const base::Json& item : index["files"]) {
    const std::string file = item["file"];
    const auto& [rows, message] = want.at(base::file_name(file));
    int64_t count = 0;
    const auto [status, got] = error_of([&] {
      const auto source = open_file_source(test::golden_path(file));
      for (Row row; source->next(row);) ++count;
    });
    if (rows >= 0) {
      EXPECT_EQ(got, "") << file;
      EXPECT_EQ(count, rows) << file;
    } else {
      EXPECT_EQ(status, Status::format) << file;
      EXPECT_NE(got.find(message), std::string::npos) << got;
    }
  }
}

}  // namespace
}  // namespace trl::data
