// Rows of Arrow streams: every type that is read, slices and nulls, and what is refused.
#include "io/arrow.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "support/arrow_stream.h"
#include "support/error_of.h"

namespace trl::io {
namespace {

using test::arrow_batch;
using test::arrow_bytes;
using test::arrow_text;
using test::ArrowColumn;
using test::ArrowStream;

std::vector<std::string> rows_of(std::vector<ArrowColumn> batches) {
  ArrowStream stream(std::move(batches));
  std::vector<std::string> out;
  {
    ArrowRows rows(stream.stream());
    EXPECT_EQ(stream.stream()->release, nullptr);
    for (std::string json; rows.next(json);) out.push_back(json);
  }
  EXPECT_EQ(stream.streams_released, 1);
  EXPECT_EQ(stream.schemas_released, 1);
  EXPECT_EQ(stream.batches_released, stream.batches_given);
  return out;
}

// The values of one column named c.
std::vector<std::string> values(ArrowColumn column) {
  column.name = "c";
  std::vector<std::string> out;
  for (const std::string& row : rows_of({arrow_batch({std::move(column)})}))
    out.push_back(row.substr(5, row.size() - 6));  // {"c":...}
  return out;
}

template <typename T>
ArrowColumn numbers(std::string format, const std::vector<T>& numbers, std::string validity = "") {
  return {std::move(format),
          "",
          static_cast<int64_t>(numbers.size()),
          {std::move(validity), arrow_bytes(numbers)}};
}

using Values = std::vector<std::string>;

TEST(Arrow, Scalars) {
  EXPECT_EQ(values({"n", "", 2, {}}), (Values{"null", "null"}));
  EXPECT_EQ(values({"b", "", 3, {"", "\x05"}}), (Values{"true", "false", "true"}));
  EXPECT_EQ(values({"b", "", 3, {"\x03", "\x05"}}), (Values{"true", "false", "null"}));
  EXPECT_EQ(values(numbers<int8_t>("c", {-128, 127})), (Values{"-128", "127"}));
  EXPECT_EQ(values(numbers<uint8_t>("C", {0, 255})), (Values{"0", "255"}));
  EXPECT_EQ(values(numbers<int16_t>("s", {-32768, 5})), (Values{"-32768", "5"}));
  EXPECT_EQ(values(numbers<uint16_t>("S", {65535})), (Values{"65535"}));
  EXPECT_EQ(values(numbers<int32_t>("i", {INT32_MIN, 7}, "\x02")), (Values{"null", "7"}));
  EXPECT_EQ(values(numbers<uint32_t>("I", {UINT32_MAX})), (Values{"4294967295"}));
  EXPECT_EQ(values(numbers<int64_t>("l", {INT64_MIN})), (Values{"-9223372036854775808"}));
  EXPECT_EQ(values(numbers<uint64_t>("L", {UINT64_MAX})), (Values{"18446744073709551615"}));
  EXPECT_EQ(values(numbers<uint16_t>("e", {0x3C00, 0xC000})), (Values{"1", "-2"}));
  EXPECT_EQ(values(numbers<float>("f", {0.5f, NAN})), (Values{"0.5", "null"}));
  EXPECT_EQ(values(numbers<double>("g", {0.1, 1e300, -INFINITY})), (Values{"0.1", "1e+300", "null"}));
}

TEST(Arrow, Texts) {
  EXPECT_EQ(values(arrow_text("", {"a", "", "\"\n\xC3\xA9"})),
            (Values{"\"a\"", "\"\"", "\"\\\"\\n\xC3\xA9\""}));
  EXPECT_EQ(values(arrow_text("", {"ab", "c"}, true)), (Values{"\"ab\"", "\"c\""}));
  ArrowColumn sliced = arrow_text("", {"a", "b", "c", "d"});
  sliced.length = 2;
  sliced.offset = 1;
  sliced.buffers[0] = "\x05";  // of the whole: b is null
  EXPECT_EQ(values(sliced), (Values{"null", "\"c\""}));
  const std::string text = "longer than twelve bytes";
  std::string views(48, '\0');
  const auto put = [&](size_t at, int32_t value) { std::memcpy(views.data() + at, &value, 4); };
  put(0, 3);
  std::memcpy(views.data() + 4, "abc", 3);
  put(16, static_cast<int32_t>(text.size()));
  put(24, 0);
  put(28, 2);
  EXPECT_EQ(values({"vu", "", 3, {"", views, "xx" + text, arrow_bytes<int64_t>({26})}}),
            (Values{"\"abc\"", "\"" + text + "\"", "\"\""}));
}

TEST(Arrow, NestedTypes) {
  ArrowColumn message{"+s",
                      "item",
                      3,
                      {"\x05"},
                      {arrow_text("role", {"user", "x", "bot"}), arrow_text("content", {"q", "y", "r"})}};
  const ArrowColumn list{"+l", "", 3, {"", arrow_bytes<int32_t>({0, 2, 2, 3})}, {message}};
  EXPECT_EQ(values(list),
            (Values{R"([{"role":"user","content":"q"},null])", "[]", R"([{"role":"bot","content":"r"}])"}));
  ArrowColumn sliced = list;
  sliced.offset = 2;
  sliced.length = 1;
  EXPECT_EQ(values(sliced), (Values{R"([{"role":"bot","content":"r"}])"}));
  EXPECT_EQ(values({"+L", "", 2, {"", arrow_bytes<int64_t>({0, 1, 3})}, {numbers<int32_t>("i", {1, 2, 3})}}),
            (Values{"[1]", "[2,3]"}));
  EXPECT_EQ(values({"+w:2", "", 2, {""}, {numbers<int32_t>("i", {1, 2, 3, 4})}}), (Values{"[1,2]", "[3,4]"}));
  ArrowColumn entries{
      "+s", "entries", 3, {""}, {arrow_text("key", {"a", "b", "c"}), numbers<int8_t>("c", {1, 2, 3})}};
  EXPECT_EQ(values({"+m", "", 2, {"", arrow_bytes<int32_t>({0, 2, 3})}, {entries}}),
            (Values{R"({"a":1,"b":2})", R"({"c":3})"}));
  ArrowColumn words = numbers<int8_t>("c", {1, 0, 1}, "\x03");
  words.dictionary = {arrow_text("", {"no", "yes"})};
  EXPECT_EQ(values(words), (Values{"\"yes\"", "\"no\"", "null"}));
  EXPECT_EQ(values({"+s", "", 1, {""}}), (Values{"{}"}));
}

TEST(Arrow, BatchesAndTheirSlices) {
  ArrowColumn first = arrow_batch({arrow_text("text", {"a", "b", "c"}), numbers<int64_t>("l", {1, 2, 3})});
  first.children[1].name = "n";
  ArrowColumn empty = first;
  empty.length = 0;
  ArrowColumn second = first;
  second.offset = 1;
  second.length = 2;
  EXPECT_EQ(rows_of({first, empty, second}),
            (Values{R"({"text":"a","n":1})", R"({"text":"b","n":2})", R"({"text":"c","n":3})",
                    R"({"text":"b","n":2})", R"({"text":"c","n":3})"}));
}

std::string refused(std::vector<ArrowColumn> batches, Status status = Status::format) {
  ArrowStream stream(std::move(batches));
  const auto error = test::error_of([&] { ArrowRows rows(stream.stream()); });
  EXPECT_EQ(error.first, status);
  EXPECT_EQ(stream.stream()->release, nullptr);
  EXPECT_EQ(stream.streams_released, 1);
  EXPECT_EQ(stream.schemas_released, 1);
  return error.second;
}

TEST(Arrow, WhatIsRefused) {
  const auto column = [](ArrowColumn child) { return arrow_batch({std::move(child)}); };
  EXPECT_EQ(refused({column({"z", "blob", 0, {}})}),
            "Arrow column 'blob': a type that is not read; null, bool, integers, floats, utf8, list, struct, "
            "map and "
            "dictionary are (z)");
  EXPECT_TRUE(refused({column({"tdD", "day", 0, {}})}).ends_with("(tdD)"));
  ArrowColumn list{"+l", "images", 0, {}, {{"+s", "item", 0, {}, {{"Z", "bytes", 0, {}}}}}};
  EXPECT_TRUE(refused({column(list)}).starts_with("Arrow column 'images.item.bytes': "));
  ArrowColumn map{"+m", "m", 0, {}, {{"+s", "entries", 0, {}, {{"i", "key", 0, {}}, {"u", "value", 0, {}}}}}};
  EXPECT_EQ(refused({column(map)}), "Arrow column 'm': a map whose keys are not text (+m)");
  EXPECT_EQ(refused({arrow_text("text", {"a"})}),
            "the Arrow stream is not a table: its type is u, but +s is expected");
  ArrowColumn deep = numbers<int8_t>("c", {});
  for (int i = 0; i < 200; ++i) deep = {"+l", "d", 0, {}, {deep}};
  EXPECT_TRUE(refused({column(deep)}).find("nested too deep") != std::string::npos);
}

TEST(Arrow, AStreamThatFails) {
  ArrowStream schema({arrow_batch({arrow_text("text", {"a"})})});
  schema.schema_code = 22;
  try {
    ArrowRows rows(schema.stream());
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::callback);
    EXPECT_EQ(error.callback_code(), 22);
    EXPECT_EQ(error.message(), "the Arrow stream does not give its schema: the rows are lost");
  }
  EXPECT_EQ(schema.streams_released, 1);

  ArrowStream stream(
      {arrow_batch({arrow_text("text", {"a", "\xFF"})}), arrow_batch({arrow_text("text", {"b"})})});
  stream.code_after = 1;
  ArrowRows rows(stream.stream());
  std::string json;
  ASSERT_TRUE(rows.next(json));
  EXPECT_EQ(test::error_of([&] { rows.next(json); }),
            std::pair(Status::format, std::string("row 2: column 'text': invalid UTF-8")));
  EXPECT_EQ(
      test::error_of([&] { rows.next(json); }),
      std::pair(Status::callback, std::string("the Arrow stream does not give its rows: the rows are lost")));
}

}  // namespace
}  // namespace trl::io
