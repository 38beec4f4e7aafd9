// Numbers, UTF-8, JSON, hashes, nearest spelling.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/files/hash.h"
#include "base/files/hashed_copy.h"
#include "base/json/json.h"
#include "base/text/base64.h"
#include "base/text/nearest.h"
#include "base/text/number.h"
#include "base/text/utf8.h"

namespace trl::base {
namespace {

TEST(Number, ReadsWholeTextOnly) {
  EXPECT_EQ(parse_int64("-42"), -42);
  EXPECT_EQ(parse_int64("+7"), 7);
  EXPECT_EQ(parse_int64("9223372036854775807"), INT64_MAX);
  for (const char* text : {"", "9223372036854775808", "1e3", "1.0", " 1", "1 ", "+-1", "0x10"})
    EXPECT_EQ(parse_int64(text), std::nullopt) << text;
  EXPECT_EQ(parse_double("2e-5"), 2e-5);
  EXPECT_EQ(parse_double("1.0E-05"), 1e-5);
  EXPECT_TRUE(std::isinf(*parse_double("inf")));
  for (const char* text : {"", "1,5", "1.5x", "--1", "1e"})
    EXPECT_EQ(parse_double(text), std::nullopt) << text;
}

TEST(Number, WritesTheShortestTextThatReadsBack) {
  EXPECT_EQ(format_double(0.1), "0.1");
  EXPECT_EQ(format_double(2e-5), "2e-05");
  EXPECT_EQ(format_double(3.0), "3");
  EXPECT_EQ(parse_double(format_double(1.0 / 3)), 1.0 / 3);
}

TEST(Quantity, IsInWords) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(2.31e9), "2.31 GB");
  EXPECT_EQ(rate_text(0.123), "0.123");
  EXPECT_EQ(rate_text(123456.7), "123457");
  EXPECT_EQ(duration_text(41.2), "41 s");
  EXPECT_EQ(duration_text(860), "14 min 20 s");
  EXPECT_EQ(duration_text(7500), "2 h 05 min");
  EXPECT_EQ(quantity(1, "row"), "1 row");
  EXPECT_EQ(quantity(0, "row"), "0 rows");
}

TEST(Utf8, FindsTheFirstBadByte) {
  EXPECT_EQ(find_invalid_utf8("caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"), kValid);
  EXPECT_EQ(find_invalid_utf8("ab\xFF"), 2u);
  EXPECT_EQ(find_invalid_utf8("\xC0\x80"), 0u);          // overlong
  EXPECT_EQ(find_invalid_utf8("x\xED\xA0\x80"), 1u);     // surrogate
  EXPECT_EQ(find_invalid_utf8("\xF4\x90\x80\x80"), 0u);  // above U+10FFFF
  EXPECT_EQ(find_invalid_utf8("abc\xE2\x82"), 3u);       // cut
}

TEST(Utf8, CodePointsThereAndBack) {
  const std::string text = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80";
  std::string back;
  std::vector<char32_t> points;
  for (size_t at = 0; at < text.size();) points.push_back(next_code_point(text, at));
  EXPECT_EQ(points, (std::vector<char32_t>{U'a', 0xE9, 0x20AC, 0x1F600}));
  for (const char32_t c : points) append_utf8(back, c);
  EXPECT_EQ(back, text);
  EXPECT_EQ(count_code_points(text), 4u);
}

// The maximal-part rule of the Unicode standard, which Python's errors="replace" follows.
TEST(Utf8, ReplacesEachBadPartOnce) {
  EXPECT_EQ(replace_invalid_utf8("a\xE2\x82z"), "a\xEF\xBF\xBDz");
  EXPECT_EQ(replace_invalid_utf8("\xFF\xFE"), "\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(replace_invalid_utf8("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(replace_invalid_utf8("\xF0\x9F\x98"), "\xEF\xBF\xBD");
}

TEST(Utf8, TextOfOthersIsOneLine) {
  EXPECT_EQ(one_line("caf\xC3\xA9 \xF0\x9F\x98\x80"), "caf\xC3\xA9 \xF0\x9F\x98\x80");
  EXPECT_EQ(one_line("a\nb\r\tc\x1B[2J\x7F"), "a b  c [2J ");
  EXPECT_EQ(one_line("a\xC2\x85"
                     "b\xE2\x80\xA8"
                     "c\xFF"),
            "a b c\xEF\xBF\xBD");
}

TEST(Json, ErrorsNameOriginLineAndColumn) {
  EXPECT_EQ(parse_json("\xEF\xBB\xBF{\"a\": 1}", "x")["a"], 1);
  try {
    parse_json("{\"a\": 1,\n \"b\": }", "rows.jsonl", 5);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::format);
    EXPECT_NE(error.message().find("rows.jsonl:6:7: not valid JSON"), std::string::npos) << error.message();
  }
  EXPECT_EQ(json_type(parse_json("[1]", "test")), "list");
  EXPECT_EQ(json_type(parse_json("1.5", "test")), "number");
}

TEST(Json, DepthIsBounded) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  const auto error = [](const std::string& text) {
    try {
      parse_json(text, "f", 2);
      return std::string("none");
    } catch (const Error& e) {
      EXPECT_EQ(e.status(), Status::format);
      return e.message();
    }
  };
  EXPECT_EQ(error("{\"a\": " + nested(127) + "}"), "none");
  EXPECT_EQ(error("{\n\"a\": " + nested(128) + "}"), "f:3:133: nested deeper than 128 levels");
  EXPECT_EQ(error("{\"a\": " + std::string(1'000'000, '[')), "f:2:134: nested deeper than 128 levels");
  EXPECT_EQ(error("[\"" + std::string(200, '[') + "\\\"" + std::string(200, '[') + "\"]"), "none");
}

TEST(Json, NumbersOfPythonThatAreNotFinite) {
  const Json json =
      parse_python_json(R"({"NaN": [NaN,Infinity , -Infinity], "a": "NaN \"Infinity", "b": 1})", "x");
  EXPECT_TRUE(std::isnan(json["NaN"][0].get<double>()));
  EXPECT_EQ(json["NaN"][1], std::numeric_limits<double>::infinity());
  EXPECT_EQ(json["NaN"][2], -std::numeric_limits<double>::infinity());
  EXPECT_EQ(json["a"], "NaN \"Infinity");
  const auto error = [](const std::string& text) {
    try {
      parse_python_json(text, "f", 3);
      return std::string("none");
    } catch (const Error& e) {
      return e.message().substr(0, e.message().find(" not valid"));
    }
  };
  EXPECT_EQ(error("[NaN,\n NaN, x]"), "f:4:7:");
  for (const char* bad : {"[NaNx]", "[1NaN]", "[--Infinity]", "[nan]", "{NaN: 1}", "[+Infinity]", "NaN NaN"})
    EXPECT_NE(error(bad), "none") << bad;
  EXPECT_THROW(parse_json("NaN", "x"), Error);
}

// As in Python, where they are floats; an integer keeps its digits if they are asked for.
TEST(Json, NumbersOfPythonBeyondFloat64AreInfinite) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::string digits(400, '7');
  for (const std::string& text :
       {std::string("1e400"), std::string("9E+308"), std::string("1.50000e0400"), digits}) {
    EXPECT_EQ(parse_python_json(text, "x"), kInfinity) << text;
    EXPECT_EQ(parse_python_json("{\"a\": [1e3, -" + text + ", NaN]}", "x")["a"][1], -kInfinity) << text;
  }
  EXPECT_EQ(parse_python_json(R"([1e400, "1e400", 1e-400, 12])", "x"), Json({kInfinity, "1e400", 0.0, 12}));
  EXPECT_EQ(parse_exact_json("[1e400]", "x")[0], kInfinity);
  for (const std::string bad :
       {"[+1e400]", "[01e400]", "[1.e400]", "[.1e400]", "[1e400x]", "[--1e400]", "{1e400: 1}"})
    EXPECT_THROW(parse_python_json(bad, "x"), Error) << bad;
  EXPECT_THROW(parse_exact_json("[" + digits + "]", "x"), Error);
  EXPECT_THROW(parse_json("[1e400]", "x"), Error);
}

TEST(Hash, KnownValues) {
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(xxh3_64(""), 0x2D06800538D394C2ull);
  std::string long_text;
  for (int i = 0; i < 5000; ++i) long_text += static_cast<char>(i * 31);
  EXPECT_EQ(xxh3_64(long_text), 0x60B1C0AE31E84FEFull);
}

// The copy and the checksum of pieces, at places of any alignment.
TEST(Hash, IsComputedWhileBytesAreCopied) {
  std::string bytes;
  for (int i = 0; i < 100'000; ++i) bytes += static_cast<char>((i * 2654435761u) >> 11);
  for (const size_t size :
       {size_t{0}, size_t{1}, size_t{64}, size_t{1000}, size_t{1024}, size_t{50'000}, bytes.size()})
    for (const size_t shift : {0, 1, 16}) {
      const std::string_view from = std::string_view(bytes).substr(0, size);
      std::string whole(size + 64, ' '), parts = whole;
      HashedCopy all(whole.data() + shift), pieces(parts.data() + shift);
      all.add(from);
      for (size_t at = 0; at < size; at += 7'777) pieces.add_shared(from.substr(at, 7'777));
      EXPECT_EQ(all.hash(), xxh3_64(from));
      EXPECT_EQ(pieces.hash(), xxh3_64(from));
      EXPECT_EQ(whole.substr(shift, size), from);
      EXPECT_TRUE(parts == whole);
    }
}

TEST(Nearest, SuggestsOnlyCloseNames) {
  constexpr std::array<std::string_view, 3> kNames = {"learning_rate", "max_length", "max_steps"};
  EXPECT_EQ(nearest("learnig_rate", kNames), "learning_rate");
  EXPECT_EQ(nearest("max_lenght", kNames), "max_length");
  EXPECT_EQ(nearest("zzz", kNames), "");
  constexpr std::string_view kShort[] = {"vm", "lm"};
  EXPECT_EQ(nearest("lr", kShort), "lm");  // one letter of two
  EXPECT_EQ(nearest("ab", kShort), "");    // nothing in common
  EXPECT_EQ(nearest("", kShort), "");
  EXPECT_EQ(join(kNames), "learning_rate, max_length, max_steps");
}

TEST(Json, IntegersBeyond64BitsKeepTheirDigits) {
  EXPECT_EQ(parse_exact_json("[18446744073709551615, -9223372036854775808, 1e20]", "x").dump(),
            "[18446744073709551615,-9223372036854775808,1e+20]");
  const Json json = parse_exact_json(
      R"({"a": [{"b": 100000000000000000000}, -9223372036854775809], "a2": {"c": {}, "d": [NaN, []], "e":
      18446744073709551616, "s": "100000000000000000000"}, "t": 1.00000000000000000001, "t": true})",
      "row 3");
  EXPECT_EQ(large_integer(json["a"][0]["b"]), "100000000000000000000");
  EXPECT_EQ(large_integer(json["a"][1]), "-9223372036854775809");
  EXPECT_EQ(large_integer(json["a2"]["e"]), "18446744073709551616");
  EXPECT_EQ(json_type(json["a2"]["e"]), "number");
  EXPECT_TRUE(std::isnan(json["a2"]["d"][0].get<double>()));
  EXPECT_EQ(json["a2"]["d"][1], Json::array());
  EXPECT_EQ(json["a2"]["s"], "100000000000000000000");
  EXPECT_EQ(json["t"], true);
  EXPECT_EQ(large_integer(json["a2"]["s"]), std::nullopt);
  EXPECT_EQ(json.size(), 3u);
  EXPECT_EQ(exact_text(parse_exact_json(R"([{"a\"": [18446744073709551616, "x"]}, NaN, [-Infinity]])", "x")),
            R"([{"a\"":[18446744073709551616,"x"]},NaN,[-Infinity]])");
  for (int lead = 0; lead < 40; ++lead) {  // wherever it stands
    const std::string text = "[" + std::string(static_cast<size_t>(lead), ' ') + "18446744073709551616]";
    EXPECT_EQ(large_integer(parse_exact_json(text, "x")[0]), "18446744073709551616") << lead;
  }
  EXPECT_EQ(parse_python_json("[18446744073709551616]", "x")[0], 18446744073709551616.0);
  EXPECT_THROW(parse_exact_json("[18446744073709551616", "x"), Error);
}

}  // namespace
// The examples of RFC 4648, section 10.
TEST(Base64, IsThatOfTheStandard) {
  const std::pair<const char*, const char*> pairs[] = {{"", ""},
                                                       {"f", "Zg=="},
                                                       {"fo", "Zm8="},
                                                       {"foo", "Zm9v"},
                                                       {"foob", "Zm9vYg=="},
                                                       {"fooba", "Zm9vYmE="},
                                                       {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : pairs) {
    EXPECT_EQ(encode_base64(bytes), text);
    EXPECT_EQ(decode_base64(text), bytes);
  }
  EXPECT_EQ(encode_base64(std::string_view("\0\xff\xfe\x80", 4)), "AP/+gA==");
  for (const char* wrong : {"Zg=", "Zg", "Zh==", "Z===", "====", "Zm 9", "Zm9_"})
    EXPECT_FALSE(decode_base64(wrong)) << wrong;
}

}  // namespace trl::base
