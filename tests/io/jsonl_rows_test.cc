// Cutting JSON text into rows: lines and arrays, positions, bounds.
#include "io/jsonl.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace trl::io {
namespace {

using Place = std::tuple<std::string, int64_t, int64_t>;

std::vector<Place> rows_of(std::string bytes) {
  JsonRows rows(open_memory_stream(std::move(bytes), "f"));
  std::vector<Place> out;
  JsonRows::Text text;
  std::vector<JsonRows::Place> places;
  while (rows.next(text)) {
    check_utf8(text.bytes, {"f", text.place.line, text.place.column()});
    out.emplace_back(text.bytes, text.place.line, text.place.column());
    places.push_back(text.place);
  }
  rows.rewind();
  size_t again = 0;
  for (JsonRows::Place place; rows.skip(place); ++again) EXPECT_EQ(place.offset, places.at(again).offset);
  EXPECT_EQ(again, out.size());
  return out;
}

std::string row_error(std::string bytes) {
  try {
    rows_of(std::move(bytes));
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::format);
    return error.message();
  }
  return "no error";
}

TEST(JsonRows, Lines) {
  EXPECT_EQ(rows_of(""), std::vector<Place>{});
  EXPECT_EQ(rows_of(" \n\r\n\t"), std::vector<Place>{});
  EXPECT_EQ(rows_of("\xEF\xBB\xBF{\"a\":1}\r\n\r\n   \n  {\"a\":2} \n{}"),
            (std::vector<Place>{{"{\"a\":1}", 1, 1}, {"{\"a\":2}", 4, 3}, {"{}", 5, 1}}));
}

TEST(JsonRows, Arrays) {
  EXPECT_EQ(rows_of("[]"), std::vector<Place>{});
  EXPECT_EQ(rows_of(" [ ] \n"), std::vector<Place>{});
  EXPECT_EQ(rows_of("[{\"a\": \"],}[\\\"\"}, [1,[2]] ,\n  {\"b\":\n1} , 7]\n"),
            (std::vector<Place>{
                {"{\"a\": \"],}[\\\"\"}", 1, 2}, {"[1,[2]]", 1, 19}, {"{\"b\":\n1}", 2, 3}, {"7", 3, 6}}));
}

// A whole file of JSON, but not of rows.
TEST(JsonRows, AnObjectOverSeveralLines) {
  const std::string several =
      "f:1: an object over several lines; rows are a list of objects, or lines of one object each";
  EXPECT_EQ(row_error("{\n  \"train\": [\n    {\"a\": 1}\n  ]\n}\n"), several);
  EXPECT_EQ(row_error("{ \"a\": 1,\r\n  \"b\": 2 }"), several);
  EXPECT_EQ(row_error("{\n}"), several);
  EXPECT_EQ(row_error("{\n  \"a\": 1\n}\n{\n  \"a\": 2\n}\n"), several);
  EXPECT_EQ(row_error("{\"messages\": [ \n{\"a\": 1},\n{\"a\": 2}]}"), several);
  EXPECT_EQ(row_error("{" + std::string(200'000, ' ') + "\n\"a\": 1}"), several);
  // a row that is cut off is one that is not valid, whatever follows
  EXPECT_EQ(rows_of("{\"a\": [1\n{\"a\": 2}").size(), 2u);
  EXPECT_EQ(rows_of("{\"a\": \"b\n\"a\": 2}").size(), 2u);
  EXPECT_EQ(rows_of("{\"a\": 1}\n{\"a\":\n\"b\"}").size(), 3u);
  EXPECT_EQ(rows_of("{\"a\":").size(), 1u);
}

TEST(JsonRows, BrokenArrays) {
  EXPECT_EQ(row_error("[{\"a\":1},\n{\"a\":2"),
            "f:2:7: not valid JSON: the file ends inside the array, in the element of line 2");
  EXPECT_EQ(row_error("[{\"a\":1},]"), "f:1:10: not valid JSON: a value is expected before ']'");
  EXPECT_EQ(row_error("[{\"a\":1}] x"), "f:1:11: not valid JSON: text after the array");
  EXPECT_EQ(row_error("[]\n x"), "f:2:2: not valid JSON: text after the array");
  EXPECT_EQ(row_error("[{},\n {\"a\":1}}, {}]"), "f:2:9: not valid JSON: '}' closes nothing");
  EXPECT_EQ(row_error("[{\"a\":\"b\nc\"}]"), "f:1:9: not valid JSON: a line break inside a string");
}

TEST(JsonRows, InvalidUtf8NamesLineColumnAndByte) {
  EXPECT_EQ(row_error("{}\n{\"a\":\"\xFF\"}\n"), "f:2:7: invalid UTF-8: byte 0xff");
  EXPECT_EQ(row_error("[{},\n {\"a\":\n \"\xED\xA0\x80\"}]"), "f:3:3: invalid UTF-8: byte 0xed");
  EXPECT_EQ(row_error("\xEF{}"), "f:1:1: not valid JSON: begins with byte 0xef");
}

// Strings, escapes and rows that lie across the edges of the buffer.
TEST(JsonRows, RowsOfEveryLength) {
  for (const bool array : {false, true}) {
    std::string bytes = array ? "[" : "";
    std::vector<Place> want;
    for (int64_t i = 0; i < 400; ++i) {
      const std::string row =
          "{\"a\":\"" + std::string(static_cast<size_t>(i * 7 % 1500), 'x') + "\\\\\\\"],{\"}";
      if (array && i > 0) bytes += ",\n";
      want.emplace_back(row, i + 1, array && i == 0 ? 2 : 1);
      bytes += row + (array ? "" : "\n");
    }
    EXPECT_EQ(rows_of(bytes + (array ? "]" : "")), want);
  }
}

TEST(JsonRows, GoesOnAtAPlace) {
  const std::string bytes = "[{\"a\":1}, {\"b\":\n2},  {\"c\":3}, 4]";
  JsonRows all(open_memory_stream(bytes, "f"));
  std::vector<JsonRows::Text> texts;
  for (JsonRows::Text text; all.next(text);) texts.push_back(text);
  ASSERT_EQ(texts.size(), 4u);
  for (size_t from = 0; from < texts.size(); ++from) {
    auto stream = open_raw_memory(std::make_shared<const std::string>(bytes), "f");
    stream->seek(texts[from].place.offset);
    JsonRows rows(std::move(stream));
    rows.resume(texts[from].place, true);
    size_t at = from;
    for (JsonRows::Text text; rows.next(text); ++at) {
      EXPECT_EQ(text.bytes, texts[at].bytes);
      EXPECT_EQ(text.place.line, texts[at].place.line);
      EXPECT_EQ(text.place.column(), texts[at].place.column());
    }
    EXPECT_EQ(at, texts.size());
  }
}

// Which row it is, is known only from the start.
TEST(JsonRows, AnErrorHasItsRow) {
  const std::string bytes = "[{\"a\":1},\n{\"b\":2},\n{\"c\":3";
  auto stream = open_raw_memory(std::make_shared<const std::string>(bytes), "f");
  const auto error_row = [](JsonRows& rows) {
    try {
      for (JsonRows::Text text; rows.next(text);) {
      }
    } catch (const Error& error) {
      EXPECT_EQ(error.place().line, 3);
      return error.place().row;
    }
    return int64_t{-2};
  };
  JsonRows all(open_memory_stream(bytes, "f"));
  EXPECT_EQ(error_row(all), 2);
  stream->seek(10);
  JsonRows rows(std::move(stream));
  rows.resume({10, 2, 10}, true);
  EXPECT_EQ(error_row(rows), -1);
}

TEST(JsonRows, LengthIsBounded) {
  for (const std::string prefix : {"{}\n", "[{},\n"}) {
    JsonRows rows(open_memory_stream(prefix + "{\"a\":\"0123456789\"}\n", "f"), 15);
    JsonRows::Text text;
    EXPECT_TRUE(rows.next(text));
    EXPECT_EQ(text.bytes, "{}");
    try {
      rows.next(text);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.message(), "f:2: the row is longer than 15 bytes");
    }
  }
}

}  // namespace
}  // namespace trl::io
