// Stop texts across the borders of tokens and of characters, and what a stream may show.
#include "text/tokenizer/completion_text.h"

#include <gtest/gtest.h>

#include <random>

#include "support/letter_tokenizer.h"
#include "text/tokenizer_tiny.h"

namespace trl::text {
namespace {

struct Streamed {
  std::string text, shown, stop;  // stop: the text that stopped it
  bool stopped = false;
  size_t tokens = 0;
};

// Adds tokens until one ends the text, and takes what is certain after each.
Streamed streamed(const Tokenizer& tokenizer, const std::vector<int32_t>& ids,
                  const std::vector<std::string>& stops) {
  CompletionText text(tokenizer, stops);
  Streamed out;
  for (const int32_t id : ids) {
    ++out.tokens;
    out.stopped = text.add(id);
    if (out.stopped) break;
    out.shown += text.take();
  }
  out.stopped |= text.finish();
  out.shown += text.take();
  out.text = text.text();
  if (text.stop() != nullptr) out.stop = *text.stop();
  EXPECT_EQ(text.stop() != nullptr, out.stopped);
  EXPECT_EQ(text.certain(), out.text);
  EXPECT_EQ(text.ids().size(), out.tokens);
  EXPECT_EQ(out.shown, out.text);
  return out;
}

// A token a byte.
Streamed bytes(const std::string& text, const std::vector<std::string>& stops) {
  const test::LetterTokenizer tokenizer;
  return streamed(tokenizer, tokenizer.encode(text, false), stops);
}

TEST(CompletionText, AStopTextEndsItWhereverItsTokensBegin) {
  const Streamed got = bytes("one two three", {"two", "none"});
  EXPECT_TRUE(got.stopped);
  EXPECT_EQ(got.text, "one ");
  EXPECT_EQ(got.stop, "two");
  EXPECT_EQ(bytes("one two three", {"wo t", "two "}).stop, "two ");  // the one that begins first
  EXPECT_EQ(got.tokens, 7u);
  EXPECT_EQ(bytes("two", {"two"}).text, "");
  EXPECT_EQ(bytes("one tw", {"two"}).text, "one tw");
  EXPECT_FALSE(bytes("one tw", {"two"}).stopped);
}

TEST(CompletionText, AStopTextBeginsAndEndsInsideTokens) {
  const auto tokenizer = tiny::open(tiny::tiny_json());
  // "hello" and " w" are tokens
  const std::vector<int32_t> ids = tokenizer->encode("hello world", false);
  ASSERT_EQ(ids[0], 259);
  EXPECT_EQ(streamed(*tokenizer, ids, {"lo w"}).text, "hel");
  EXPECT_EQ(streamed(*tokenizer, ids, {"lo w"}).tokens, 2u);
  EXPECT_EQ(streamed(*tokenizer, ids, {"el"}).text, "h");
  EXPECT_EQ(streamed(*tokenizer, ids, {"el"}).tokens, 1u);
  EXPECT_EQ(streamed(*tokenizer, ids, {"lo", "hell"}).text, "");  // both at once: the one that begins first
}

TEST(CompletionText, CandidatesThatOverlap) {
  EXPECT_EQ(bytes("aaab", {"aab"}).text, "a");
  EXPECT_EQ(bytes("xabababc!", {"ababc"}).text, "xab");
  EXPECT_EQ(bytes("abcabd", {"abd", "bcx"}).text, "abc");
  EXPECT_EQ(bytes("abcabe", {"abd", "bcx"}).text, "abcabe");
}

TEST(CompletionText, CharactersWhoseBytesAreTokens) {
  EXPECT_EQ(bytes("caf\u00e9!", {"\u00e9"}).text, "caf");
  EXPECT_EQ(bytes("caf\u00e9!", {"\u00e9"}).tokens, 5u);
  EXPECT_EQ(bytes("a\u20ac\u20ad", {"\u20ad"}).text, "a\u20ac");  // differ in the last byte
  EXPECT_EQ(bytes("\U0001F600\U0001F601", {"\U0001F601"}).text, "\U0001F600");
  // A character is shown when it is whole, and one that stays unfinished as U+FFFD.
  EXPECT_EQ(bytes("a\xe2\x82", {"\u20ac"}).text, "a\ufffd");
  EXPECT_FALSE(bytes("a\xe2\x82", {"\u20ac"}).stopped);
  EXPECT_EQ(bytes("a\xe2\x82", {"\ufffd"}).text, "a");
  EXPECT_TRUE(bytes("a\xe2\x82", {"\ufffd"}).stopped);
}

TEST(CompletionText, NothingThatMayBecomeAStopTextIsShown) {
  const test::LetterTokenizer tokenizer;
  const std::vector<std::string> stops = {"END", "\n\nQ"};
  CompletionText text(tokenizer, stops);
  const auto after = [&](char c) {
    EXPECT_FALSE(text.add(c));
    return std::string(text.take());
  };
  EXPECT_EQ(after('E'), "");
  EXPECT_EQ(after('N'), "");
  EXPECT_EQ(after('E'), "EN");
  EXPECT_EQ(after('x'), "Ex");
  EXPECT_EQ(after('\n'), "");
  EXPECT_EQ(after('\n'), "");
  EXPECT_EQ(after('\n'), "\n");
  EXPECT_TRUE(text.add('Q'));
  EXPECT_EQ(text.take(), "");
  EXPECT_EQ(text.text(), "ENEx\n");
  EXPECT_FALSE(text.add('Q'));
  EXPECT_EQ(text.text(), "ENEx\n");
}

TEST(CompletionText, AStopTextMayBeOfSpecialTokens) {
  const auto got = [](const std::string& text, const std::string& stop) { return bytes(text, {stop}); };
  EXPECT_EQ(bytes("ab<e>c", {}).text, "abc");
  const Streamed token = got("ab<e>c", "<e>");
  EXPECT_TRUE(token.stopped);
  EXPECT_EQ(token.text, "ab");
  EXPECT_EQ(token.tokens, 3u);
  EXPECT_EQ(got("<e>", "<e>").text, "");
  EXPECT_EQ(got("ab<e>cd", "b<e>c").text, "a");
  EXPECT_EQ(got("ab<e>cd", "b<e>c").tokens, 4u);
  EXPECT_EQ(got("ab<e>cd", "e>c").text, "ab");  // it begins inside the token
  EXPECT_EQ(got("ab<e><e>cd", "<e><e>c").text, "ab");
  EXPECT_EQ(got("ab<e>cd", "<e>d").text, "abcd");
  EXPECT_FALSE(got("ab<e>cd", "<e>d").stopped);
  EXPECT_EQ(got("ab<e>cd", "bc").text, "a");  // the text that is given out has none
  EXPECT_EQ(bytes("ab<e>cd", {"cd", "b<e>x", "<e>c"}).text, "ab");
  EXPECT_EQ(got("a\xe2\x82<e>", "<e>").text, "a\ufffd");
  EXPECT_EQ(got("a\xe2\x82<e>", "\ufffd").text, "a");
  EXPECT_EQ(got("a\u20ac<e>\u20ad", "\u20ac<e>").text, "a");
}

TEST(CompletionText, SaysWhetherAStopTextShortensIt) {
  const test::LetterTokenizer tokenizer;
  for (const auto& [stop, cut] : {std::pair{"<e>", false}, {"b<e>", true}, {"<", false}, {"b", true}}) {
    CompletionText text(tokenizer, {stop});
    for (const int32_t id : tokenizer.encode("ab<e>", false)) text.add(id);
    text.finish();
    EXPECT_EQ(text.is_cut(), cut) << stop;
  }
}

TEST(CompletionText, WhatMayBecomeAStopTextWithASpecialTokenIsNotShown) {
  const test::LetterTokenizer tokenizer;
  CompletionText text(tokenizer, {"b<e>c"});
  const auto after = [&](int32_t id) {
    EXPECT_FALSE(text.add(id));
    return std::string(text.take());
  };
  EXPECT_EQ(after('a'), "a");
  EXPECT_EQ(after('b'), "");
  EXPECT_EQ(after(test::kEos), "");
  EXPECT_EQ(after('b'), "b");
  EXPECT_EQ(after(test::kEos), "");
  EXPECT_EQ(after('d'), "bd");
  EXPECT_EQ(after('b'), "");
  EXPECT_EQ(after(test::kEos), "");
  EXPECT_TRUE(text.add('c'));
  EXPECT_EQ(text.take(), "");
  EXPECT_EQ(text.text(), "abbd");
}

// Special tokens before the first text, as of a model that repeats its end.
TEST(CompletionText, TokensWithoutTextAreNotDecodedAgain) {
  class Counting final : public test::LetterTokenizer {
   public:
    std::string decode_bytes(std::span<const int32_t> ids, bool skip, bool continues) const override {
      decoded += ids.size();
      return LetterTokenizer::decode_bytes(ids, skip, continues);
    }
    mutable size_t decoded = 0;
  };
  const Counting tokenizer;
  constexpr size_t kTokens = 2000;
  CompletionText text(tokenizer, {});
  for (size_t i = 0; i < kTokens; ++i) text.add(test::kEos);
  EXPECT_EQ(text.text(), "");
  text.add('a');
  EXPECT_EQ(text.text(), "a");
  text.finish();
  EXPECT_EQ(text.text(), "a");
  EXPECT_LE(tokenizer.decoded, 3 * kTokens);
}

// Few letters, so that stop texts often nearly occur.
TEST(CompletionText, RandomTextsEndBeforeTheFirstStopText) {
  std::mt19937 random(3);
  const auto any = [&](size_t least, size_t most) {
    std::string text(least + random() % (most - least + 1), 'a');
    for (char& c : text) c = static_cast<char>('a' + random() % 2);
    return text;
  };
  for (int i = 0; i < 2000; ++i) {
    const std::string text = any(0, 12);
    const std::vector<std::string> stops = {any(1, 4), any(2, 5)};
    // A token is a byte: the stop text that ends first ends the completion.
    size_t end = std::string::npos, cut = text.size();
    for (const std::string& stop : stops) {
      const size_t at = text.find(stop);
      if (at == std::string::npos) continue;
      if (at + stop.size() < end) end = at + stop.size(), cut = at;
      if (at + stop.size() == end) cut = std::min(cut, at);
    }
    const Streamed got = bytes(text, stops);
    EXPECT_EQ(got.text, text.substr(0, cut)) << text << " " << stops[0] << " " << stops[1];
    EXPECT_EQ(got.stopped, end != std::string::npos);
  }
}

}  // namespace
}  // namespace trl::text
