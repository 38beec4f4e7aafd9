// Rows from files, buffers and callbacks, and what each says of bad input.
#include "data/source/source.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "base/files/files.h"
#include "io/temporary_file.h"
#include "support/error_of.h"
#include "support/golden.h"
#include "support/interrupts.h"

namespace trl::data {
namespace {

std::unique_ptr<Source> memory(std::string bytes) {
  return open_memory_source("jsonl", std::move(bytes), "m.jsonl");
}

std::vector<std::string> places(Source& source) {
  std::vector<std::string> out;
  for (Row row; source.next(row);) out.push_back(row.where.text() + " " + row.value.dump());
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
  EXPECT_EQ(error_in("{}\n[1]\n"), "m.jsonl:2: a list instead of a row (an object)");
  EXPECT_EQ(error_in("[{},\n 5]"), "m.jsonl:2 (row 2): a number instead of a row (an object)");
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
  EXPECT_EQ(error_of([&] { one("text"); }).second, "row 1: a string instead of a row (an object)");
  EXPECT_EQ(error_of([&] {
              one({{"a", {{"b", "x\xFF"}}}});
            }).second,
            "row 1: invalid UTF-8 at byte 1 of a string");
  base::Json deep = 1;
  for (int i = 0; i < 200; ++i) deep = base::Json::array({std::move(deep)});
  EXPECT_EQ(error_of([&] { one({{"a", deep}}); }).second, "row 1: nested deeper than 128 levels");
}

TEST(Source, CsvRowsAreText) {
  const auto csv = [](std::string bytes) { return open_memory_source("csv", std::move(bytes), "m.csv"); };
  EXPECT_EQ(places(*csv("\xEF\xBB\xBF"
                        "a,b\r\n1,\"y, \"\"q\"\"\nz\"\r\n\r\n ,\n\"\",5\" \"pipe\"\n")),
            (std::vector<std::string>{"m.csv:2 {\"a\":\"1\",\"b\":\"y, \\\"q\\\"\\nz\"}",
                                      "m.csv:5 {\"a\":\" \",\"b\":null}",
                                      "m.csv:6 {\"a\":\"\",\"b\":\"5\\\" \\\"pipe\\\"\"}"}));
  EXPECT_EQ(places(*csv("")), std::vector<std::string>{});
  EXPECT_EQ(places(*csv("a,b\n")), std::vector<std::string>{});
  const auto again = csv("a\nx\n");
  EXPECT_EQ(places(*again), std::vector<std::string>{"m.csv:2 {\"a\":\"x\"}"});
  again->rewind();
  EXPECT_EQ(places(*again), std::vector<std::string>{"m.csv:2 {\"a\":\"x\"}"});
  // As pandas reads them.
  EXPECT_EQ(places(*csv("a,b,c\n1,2,3\nx\n\"y\nz\",5\n")),
            (std::vector<std::string>{R"(m.csv:2 {"a":"1","b":"2","c":"3"})",
                                      R"(m.csv:3 {"a":"x","b":null,"c":null})",
                                      R"(m.csv:4 {"a":"y\nz","b":"5","c":null})"}));
  EXPECT_EQ(places(*csv(",text\n0,hi\n")),
            std::vector<std::string>{R"(m.csv:2 {"Unnamed: 0":"0","text":"hi"})"});
  const auto error = [&](std::string bytes) {
    const auto [status, message] = error_of([&] { places(*csv(std::move(bytes))); });
    EXPECT_EQ(status, Status::format);
    return message;
  };
  EXPECT_EQ(error("a,b\nx,y\n\n\"u\nv\",w,z\n"),
            "m.csv:4: the row has 3 cells, but the header names 2 columns");
  EXPECT_EQ(error("a,b\nx\ny,z,w\n"), "m.csv:3: the row has 3 cells, but the header names 2 columns");
  EXPECT_EQ(error("a,b,a\n1,2,3\n"), "m.csv:1: the header names column 'a' twice");
  EXPECT_EQ(error("a,b\nx,\"y\nz\n"),
            "m.csv:2: the file ends inside a quoted cell of the row that begins here");
  EXPECT_EQ(error("a,b\nx,\"y\n\"z\"\n"),
            "m.csv:3: text after the quote that ends a cell; a quote inside a quoted cell is written twice");
  EXPECT_EQ(error(std::string("a\nx\0y\n", 7)), "m.csv:2: a NUL byte: this is not CSV text");
  EXPECT_EQ(error("a\nx\n\xFF\n"), "m.csv:3: invalid UTF-8 in column \"a\"");
  EXPECT_EQ(error("a,\xFF\nx\n"), "m.csv:1: invalid UTF-8 in cell 2");
}

// As datasets 5.2.0 reads them.
TEST(Source, LinesOfTextAreRows) {
  const auto text = [](std::string bytes) {
    return places(*open_memory_source("text", std::move(bytes), "m.txt"));
  };
  EXPECT_EQ(text("a\r\nb\rc\n\n\nd"),
            (std::vector<std::string>{"m.txt:1 {\"text\":\"a\"}", "m.txt:2 {\"text\":\"b\"}",
                                      "m.txt:3 {\"text\":\"c\"}", "m.txt:4 {\"text\":\"\"}",
                                      "m.txt:5 {\"text\":\"\"}", "m.txt:6 {\"text\":\"d\"}"}));
  EXPECT_EQ(text(""), std::vector<std::string>{});
  EXPECT_EQ(text("\n"), std::vector<std::string>{"m.txt:1 {\"text\":\"\"}"});
  EXPECT_EQ(text("\xEF\xBB\xBFé\n \n x \u2028\"y\t\\\n"),
            (std::vector<std::string>{"m.txt:1 {\"text\":\"é\"}", "m.txt:2 {\"text\":\" \"}",
                                      "m.txt:3 {\"text\":\" x \u2028\\\"y\\t\\\\\"}"}));
  EXPECT_EQ(error_of([&] {
              text(
                  "ab\nc\xFF"
                  "d");
            }).second,
            "m.txt:2:2: invalid UTF-8: byte 0xff");
}

TEST(Source, ChainsGiveOneBehindTheOther) {
  const auto part = [](std::string bytes, std::string name) {
    return [=] { return open_memory_source("jsonl", bytes, name); };
  };
  const auto chain = chain_sources({{part("{\"x\":1,\"y\":1}", "a"), {"x"}},
                                    {part("", "empty"), {}},
                                    {part("{\"x\":2,\"y\":2}\n{\"y\":3}", "b"), {}}},
                                   "both");
  const std::vector<std::string> want = {"a:1 {\"x\":1}", "b:1 {\"x\":2,\"y\":2}", "b:2 {\"y\":3}"};
  EXPECT_EQ(places(*chain), want);
  chain->rewind();
  EXPECT_EQ(places(*chain), want);
  EXPECT_EQ(chain->name(), "both");
}

TEST(Source, AFileThatChangesWhileItIsReadIsAnError) {
  const test::TemporaryDirectory directory;
  std::string bytes;
  for (int i = 0; i < 20000; ++i) bytes += "{\"text\": \"some words\"}\n";
  const std::string path = directory.write("a.jsonl", bytes);
  const auto source = open_file_source(path);
  Row row;
  ASSERT_TRUE(source->next(row));
  directory.write("a.jsonl", bytes.substr(0, 300000));
  EXPECT_EQ(error_of([&] { places(*source); }),
            std::pair(Status::io, path + ": the file changed while it was being read"));
}

TEST(Source, ARowOfAHundredMegabytes) {
  const std::string text(size_t{100} << 20, 'x');
  const auto source = memory("{\"text\":\"" + text + "\"}\n{\"text\":\"a\"}\n");
  Row row;
  ASSERT_TRUE(source->next(row));
  EXPECT_EQ(row.value["text"].get_ref<const std::string&>().size(), text.size());
  ASSERT_TRUE(source->next(row));
  EXPECT_EQ(row.where.text(), "m.jsonl:2");
  EXPECT_FALSE(source->next(row));
}

// Every recorded file: what fails while reading there fails here, with file and line.
// The row at which a call ends is not at fault.
TEST(Source, ACancelledCallHasNoPlace) {
  RowText text;
  text.json = "{\"a\":\"" + std::string(size_t{1} << 20, 'x') + "\"}";
  text.file = "m.jsonl";
  text.line = 3;
  text.column = 1;
  text.row = 2;
  EXPECT_EQ(parse_row(text).where.row, 2);
  test::Stops stops;
  const base::InterruptScope scope(&stops);
  try {
    parse_row(text);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::cancelled) << error.message();
    EXPECT_FALSE(error.place().is_known());
  }
}

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
      {"not_an_object.jsonl", {-1, "not_an_object.jsonl:6: a list instead of a row"}},
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
