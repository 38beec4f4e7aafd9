// Patterns as constraints: their language, errors, bounds, and places that outlive what is known of them.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/text/utf8.h"
#include "support/letter_tokenizer.h"
#include "text/constraint/pattern_parser.h"
#include "text/constraint/token_constraint.h"
#include "text/texts.h"

namespace trl::text {
namespace {

std::shared_ptr<const TokenTrie> letters() {
  static const auto trie = std::make_shared<const TokenTrie>(test::LetterTokenizer());
  return trie;
}

// One token a byte: whether the whole text matches.
bool matches(const PatternTree& tree, std::string_view text) {
  TokenConstraint constraint(tree, "generate.regex", letters());
  Constraint::Place place = constraint.start();
  for (const char byte : text) {
    place = constraint.after(place, static_cast<unsigned char>(byte));
    if (place == nullptr) return false;
  }
  std::string_view why;
  const auto allowed = constraint.allowed(place, why);
  EXPECT_NE(allowed, nullptr) << why;
  return allowed != nullptr && allowed->end;
}

bool matches(std::string_view pattern, std::string_view text) {
  return matches(parse_pattern(pattern, "generate.regex"), text);
}

std::string refusal(std::string_view pattern) {
  try {
    const PatternTree tree = parse_pattern(pattern, "generate.regex");
    const Automaton automaton(tree, "generate.regex");
  } catch (const Error& error) {
    EXPECT_EQ(error.key(), "generate.regex");
    return error.message();
  }
  return "";
}

TEST(Constraint, PatternsMeanWhatTheyDoInPython) {
  struct Row {
    const char *pattern, *text;
    bool match;
  };
  constexpr Row kRows[] = {
      {"a{2}", "aa", true},
      {"a{2}", "a", false},
      {"a{,2}", "", true},
      {"a{2,}", "aaaa", true},
      {"a{", "a{", true},
      {"a{x}", "a{x}", true},
      {"a+?b*?", "aab", true},
      {"(?:ab)+", "abab", true},
      {"(?P<n>a)b", "ab", true},
      {"(?i)straße", "STRAßE", true},
      {"(?i)[a-c]+", "aBC", true},
      {"(?i)k", "\u212a", true},
      {"(?i)s", "\u017f", true},
      {"(?i)i", "\u0130", true},
      {"(?i)\u03a3", "\u03c2", true},
      {"(?i)\u0390", "\u1fd3", true},
      {"(?i)\ufb05", "\ufb06", true},
      {"(?i)[^\u0390]", "\u1fd3", false},
      {"(?i:a)b", "Ab", true},
      {"(?i:a)b", "AB", false},
      {"(?i)a(?-i:b)c", "AbC", true},
      {"(?i)a(?-i:b)c", "ABC", false},
      {"(?is)(?-s:.)", "\n", false},
      {"\\p{Lu}\\pL\\P{L}", "\u00c9a1", true},
      {"[\\p{Nd}x]+", "\u0663x1", true},
      {"[^\\p{L}]", "a", false},
      {"a{,}", "aaa", true},
      {"a{}", "a{}", true},
      {"(?s).", "\n", true},
      {".", "\n", false},
      {"[^a]", "\n", true},
      {"[]a]+", "]a", true},
      {"[a-]+", "a-", true},
      {"[\\w-]+", "x-1", true},
      {"\\x41\\u00e9", "A\u00e9", true},
      {"\\101\\0", "A", false},
      {"^a$|^b", "b", true},
      {"\\Aab\\Z", "ab", true},
      {"(a*)*b", "aab", true},
      {"(|a)+", "aa", true},
      {"()", "", true},
      {"a(?#note)b", "ab", true},
      {"a(?#note)*", "aa", true},
      {"(?#note)(?i)a", "A", true},
      {"a(?#\\))b", "ab", true},
      {"(?P<\u00e9_1>a)", "a", true},
      {"\\w", "\u00e9", true},
      {"\\W", "-", true},
      {"\\S\\D\\s", "ab ", true},
      {"[\\d.]+", "1.5", true},
      {"\\.\\*\\-", ".*-", true},
      {"\U0001F600{2}", "\U0001F600\U0001F600", true},
      {"[\u00e9-\u00fc]", "\u00f0", true},
      {"x*", "", true},
      {"}", "}", true},
      {"]", "]", true},
  };
  for (const Row& row : kRows) EXPECT_EQ(matches(row.pattern, row.text), row.match) << row.pattern;
}

TEST(Constraint, EachThingThatIsRefusedIsNamedWithItsPlace) {
  const std::pair<const char*, const char*> rows[] = {
      {"ab\\1", "character 3 of the pattern 'ab\\1': back-references are not supported"},
      {"(?P=n)", "back-references"},
      {"a(?=b)", "character 2 of the pattern 'a(?=b)': look-around"},
      {"(?<!x)y", "look-around"},
      {"\\bx", "borders of words"},
      {"(a", "character 1 of the pattern '(a': the group is not closed"},
      {"a)", "')' closes no group"},
      {"[a", "the class is not closed"},
      {"[z-a]", "character 2 of the pattern '[z-a]': the range is reversed"},
      {"[\\d-z]", "a class cannot begin or end a range"},
      {"*a", "there is nothing to repeat"},
      {"a**", "a quantifier follows another"},
      {"a++", "possessive quantifiers"},
      {"(?>a)", "atomic groups"},
      {"(?m)a", "the flag (?m) is not supported"},
      {"a(?i)b", "flags of the whole pattern"},
      {"a{3,2}", "above the most"},
      {"\\q", "\\q is not an escape"},
      {"\\p{Han}", "\\p{Han} is not supported; general categories are"},
      {"\\p{L", "the name of the category is not closed"},
      {"\\p", "\\p{} is not supported"},
      {"[a-\\pL]", "a class cannot begin or end a range"},
      {"(?i-m:a)", "the flag (?m) is not supported"},
      {"a\\", "ends with a backslash"},
      {"\\x4", "2 hexadecimal digits"},
      {"\\ud800", "no such character"},
      {"[[:alpha:]]", "[:alpha:]"},
      {"a^b", "^ is accepted only at the beginning"},
      {"(a$)b", "$ is accepted only at the end"},
      {"^*", "an anchor cannot be repeated"},
      {"((a{1000}){1000}){1000}", "too large: with all repetitions it has more than 50000 parts"},
      {"((){40000}){40000}", "too large"},
      {"a{99999999999}", "at most 50000 repetitions"},
      {"[^\\s\\S]", "no text matches the pattern"},
      {"(?(1)a|b)", "conditions"},
      {"(?P<1>ab)", "character 5 of the pattern '(?P<1>ab)': the name of a group"},
      {"(?P<a b>a)", "the name of a group has letters"},
      {"(?P<>a)", "the name of a group is missing"},
      {"(?P<x>a)|(?P<x>b)",
       "character 14 of the pattern '(?P<x>a)|(?P<x>b)': an earlier group has this name"},
      {"(?<x>a)", "a group with a name begins with (?P<"},
      {"(?i-i:a)", "a flag is turned on and off"},
      {"(?i-:a)", "no flag follows the minus"},
      {"(?i-s)a", "a colon is missing behind the flags"},
      {"a\\z", "\\z is not an escape before Python 3.14; write \\Z"},
      {"[\\z]", "\\z is not an escape"},
      {"a(?#b", "character 2 of the pattern 'a(?#b': the comment is not closed"},
      {"a*(?#b)*", "a quantifier follows another"},
  };
  for (const auto& [pattern, text] : rows)
    EXPECT_NE(refusal(pattern).find(text), std::string::npos) << pattern << ": " << refusal(pattern);
  EXPECT_NE(refusal(std::string(201, '(') + std::string(201, ')')).find("nested deeper"), std::string::npos);
  EXPECT_NE(refusal(std::string(70000, 'a')).find("70000 bytes; at most 65536"), std::string::npos);
  EXPECT_NE(refusal("a\xff").find("byte 1 of the pattern is not UTF-8"), std::string::npos);
}

// A class of \w has hundreds of ranges, and its tables hundreds of rows.
TEST(Constraint, ClassesAreBoundedByTheirRangesAndTables) {
  EXPECT_EQ(refusal(repeated("\\w", 32 << 10)), "");
  EXPECT_EQ(refusal(repeated("[\\w.-]", 10000)), "");
  std::string different, tables;
  for (int i = 0; i < 2000; ++i) different += fmt::format("[\\w\\u{:04x}]", 0x2000 + i);
  for (int i = 0; i < 200; ++i) tables += fmt::format("[\\w\\u{:04x}]", 0x2010 + 2 * i);
  EXPECT_NE(refusal(different).find("more than 400000 ranges of characters"), std::string::npos)
      << refusal(different);
  EXPECT_NE(refusal(tables).find("more than 32768 places within characters"), std::string::npos)
      << refusal(tables);
  const std::string one_class = "[" + repeated("\\w", 30000) + "]";
  EXPECT_NE(refusal(one_class).find("ranges of characters"), std::string::npos) << refusal(one_class);
  std::string backwards = "[";
  for (char32_t c = 0xFFFF; c > 0xE000 && backwards.size() < 60000; c -= 2) base::append_utf8(backwards, c);
  EXPECT_EQ(refusal(backwards + "]"), "");
  EXPECT_NE(refusal("(?i)" + different).find("ranges of characters"), std::string::npos);
}

// As JSON schemas mean a pattern: an anchor within an alternative of a group holds for that one alone.
TEST(Constraint, APartOfATextMatchesUnlessAnAnchorHoldsIt) {
  struct Row {
    const char *pattern, *text;
    bool match;
  };
  constexpr Row kRows[] = {
      {"b", "abc", true},         {"^b", "abc", false},      {"b$", "ab", true},
      {"^a|b$", "xb", true},      {"^a|b$", "xa", false},    {"(^a|^b)c", "bcx", true},
      {"(^a|^b)c", "xbc", false}, {"(^a|b)c", "xac", false}, {"(^a|b)c", "xbcx", true},
      {"a(b$|c)", "xacx", true},  {"a(b$|c)", "abx", false}, {"^", "x", true},
      {"$|a", "x", true},         {"^$", "x", false},        {"((^a))", "xa", false},
      {"^^a", "ax", true},        {"", "x", true},           {"(|^)a", "ba", true},
      {"(?<n>b)", "abc", true},
  };
  for (const Row& row : kRows)
    EXPECT_EQ(matches(parse_part_pattern(row.pattern, "key"), row.text), row.match)
        << row.pattern << " " << row.text;
}

// Validators of JSON schemas have several dialects: what is written is right for all of them.
TEST(Constraint, ClassesOfAPartHaveWhatAllDialectsHave) {
  struct Row {
    const char *pattern, *text;
    bool match;
  };
  constexpr Row kRows[] = {
      {"^\\w$", "a", true},        {"^\\w$", "é", false},         {"^\\d$", "7", true},
      {"^\\d$", "٣", false},       {"^\\s$", "\t", true},         {"^\\s$", "\u2003", false},
      {"^\\W$", "-", true},        {"^\\W$", "é", false},         {"^\\W$", "²", false},
      {"^\\D$", "a", true},        {"^\\D$", "-", true},          {"^\\D$", "٣", false},
      {"^\\S$", "é", true},        {"^\\S$", "\uFEFF", false},    {"^[\\w-]$", "é", false},
      {"^[^\\w]$", "é", false},    {"^[^\\W]$", "é", false},      {"^[^\\W]$", "a", true},
      {"^[^\\D]$", "٣", false},    {"^[^\\s]$", "\u2003", false}, {"^.$", "é", true},
      {"^.$", "\r", false},        {"^.$", "\u2028", false},      {"^[^a]$", "\u2028", true},
      {"(?i)^[^\\W]$", "K", true},
  };
  for (const Row& row : kRows)
    EXPECT_EQ(matches(parse_part_pattern(row.pattern, "key"), row.text), row.match)
        << row.pattern << " " << row.text;
  EXPECT_TRUE(matches("\\w\\d\\s", "é٣\u2003"));  // a pattern of its own has Unicode's
}

TEST(Constraint, AClassMeansTheSameEachTime) {
  EXPECT_TRUE(matches("[a-c][a-c](?i:[a-c])[a-c]", "abCa"));
  EXPECT_FALSE(matches("[a-c][a-c](?i:[a-c])[a-c]", "abCA"));
  EXPECT_TRUE(matches("[]a][^]a][\\]x]\\w\\w", "]b]cd"));
  EXPECT_TRUE(matches(".(?s:.).", "a\nb"));
  EXPECT_FALSE(matches(".(?s:.).", "\n\nb"));
}

TEST(Constraint, ATextMayEndOnlyWhereItMatches) {
  TokenConstraint constraint(parse_pattern("ab?", ""), "", letters());
  std::string_view why;
  const auto start = constraint.start();
  EXPECT_FALSE(constraint.allowed(start, why)->end);
  const auto a = constraint.after(start, 'a');
  EXPECT_TRUE(constraint.allowed(a, why)->end);
  EXPECT_FALSE(constraint.is_over(a));
  EXPECT_EQ(constraint.allowed(a, why)->few, std::vector<int32_t>{'b'});
  const auto b = constraint.after(a, 'b');
  EXPECT_TRUE(constraint.is_over(b));
  EXPECT_TRUE(constraint.allowed(b, why)->empty());
  EXPECT_EQ(constraint.after(b, 'b'), nullptr);
  EXPECT_EQ(constraint.after(a, test::kEos), nullptr);
  EXPECT_EQ(constraint.after(a, -1), nullptr);
  EXPECT_EQ(constraint.after(a, 1 << 30), nullptr);
}

// 2^16 states of 2 KB are more than may be kept: they are dropped on the way, and places go on.
TEST(Constraint, PlacesOutliveWhatIsDropped) {
  TokenConstraint constraint(parse_pattern("(a|b)*a(a|b){16}", ""), "", letters());
  Constraint::Place place = constraint.start();
  const Constraint::Place kept = constraint.after(place, 'a');
  uint32_t bits = 12345;
  std::string_view why;
  for (int i = 0; i < 30000; ++i) {
    bits = bits * 1664525 + 1013904223;
    place = constraint.after(place, (bits >> 24 & 1) != 0 ? 'a' : 'b');
    ASSERT_NE(place, nullptr);
    const auto allowed = constraint.allowed(place, why);
    ASSERT_NE(allowed, nullptr) << why;
    ASSERT_EQ(allowed->few, (std::vector<int32_t>{'a', 'b'}));
  }
  EXPECT_EQ(constraint.allowed(kept, why)->few, (std::vector<int32_t>{'a', 'b'}));
}

// Other texts wait while it is looked for what may follow one.
TEST(Constraint, TooMuchWorkForOneTextIsRefused) {
  std::string pattern;  // any of its 20,000 letters may come first
  while (pattern.size() < 40000)
    for (char c = 'a'; c <= 'z'; ++c) pattern += {c, '?'};
  TokenConstraint constraint(parse_pattern(pattern, ""), "", letters());
  std::string_view why;
  EXPECT_EQ(constraint.allowed(constraint.start(), why), nullptr);
  EXPECT_NE(why.find("too complex"), why.npos) << why;
}

}  // namespace
}  // namespace trl::text
