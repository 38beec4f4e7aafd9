// Texts that are one long word, as `tokenizers` cuts them.
#include <gtest/gtest.h>

#include "base/text/utf8.h"
#include "support/golden.h"
#include "support/interrupts.h"
#include "text/texts.h"
#include "text/tokenizer_tiny.h"

namespace trl::text {
namespace {
using namespace tiny;

// The rules of tests/parity/text_sample.py.
std::map<std::string, std::string> long_words() {
  uint64_t state = 1;
  const auto draw = [&](uint64_t bound) {
    state = (state * 1103515245 + 12345) % (uint64_t{1} << 31);
    return state / 65536 % bound;
  };
  const std::vector<std::string> syllables = {"th", "e", "in", "g", "ri", "ver", "a", "n", "c", "b", "s"};
  std::map<std::string, std::string> words = {{"a letter", repeated("a", 20000)},
                                              {"two letters", repeated("ab", 10000)},
                                              {"spaces", repeated(" ", 20000)},
                                              {"lines", repeated("\n", 20000)},
                                              {"emoji", repeated("\U0001F44D\U0001F3FD", 3000)},
                                              {"marks", "e" + repeated("\u0301", 10000)}};
  for (int i = 0; i < 20000; ++i) words["three letters"] += static_cast<char>('a' + draw(3));
  for (int i = 0; i < 20000; ++i) words["random letters"] += static_cast<char>('a' + draw(26));
  for (int i = 0; i < 12000; ++i) words["syllables"] += syllables[draw(11)];
  return words;
}

TEST(TokenizerLongWords, GiveTheRecordedIds) {
  const std::map<std::string, std::string> words = long_words();
  size_t run = 0;
  for (const Json& c : test::golden_json("tokenizers/long_words.json")) {
    SCOPED_TRACE(c.dump());
    const std::string name = c.at("tokenizer");
    const auto tokenizer =
        open(base::read_json_file(TRL_SOURCE_DIR "/tests/golden/tokenizers/" + name + "/tokenizer.json"));
    const Ids ids = tokenizer->encode(words.at(c.at("text")), false);
    EXPECT_EQ(ids.size(), c.at("ids").get<size_t>());
    std::string bytes;
    for (const int32_t id : ids)
      for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(id >> shift & 0xFF);
    EXPECT_EQ(crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size())),
              c.at("crc").get<uint64_t>());
    ++run;
  }
  EXPECT_EQ(run, 45u);
}

// A word of a megabyte is tokenised in a second, and polls meanwhile.
TEST(TokenizerLongWords, AreCancelledWithinThem) {
  const std::map<std::string, std::string> words = long_words();
  for (const char* name : {"bpe_qwen2", "spm_style_bpe", "unigram_t5"}) {
    const std::string path =
        TRL_SOURCE_DIR "/tests/golden/tokenizers/" + std::string(name) + "/tokenizer.json";
    SCOPED_TRACE(name);
    const auto tokenizer = open(base::read_json_file(path));
    const std::string word = repeated(words.at("random letters"), 50);
    EXPECT_GE(test::polls_of([&] { tokenizer->encode(word, false); }), 60);
  }
}

// Tokens that are whitespace and take whitespace along: in the square of the text's length if each looked at
// all.
TEST(TokenizerLongWords, WhitespaceIsLookedAtOnce) {
  for (const char* side : {"lstrip", "rstrip"}) {
    Json json = tiny_json();
    json["added_tokens"] = Json::array({added(265, " ", side)});
    const auto tokenizer = open(json);
    const std::string text(2'000'000, ' ');
    EXPECT_EQ(tokenizer->encode(text, false), Ids(text.size(), 265)) << side;
  }
}

}  // namespace
}  // namespace trl::text
