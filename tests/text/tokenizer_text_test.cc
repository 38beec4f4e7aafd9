// Texts of every kind through recorded tokenizers: back to the same bytes, offsets, bad input, long words,
// threads.
#include <gtest/gtest.h>

#include <thread>

#include "support/golden.h"
#include "text/tokenizer_tiny.h"

namespace trl::text {
namespace {
using namespace tiny;

const char* const kSample =
    "<|im_start|>Zo\xC3\xAB\xCC\x88 e\xCC\x81t \xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E "
    "\xF0\x9F\x91\x8D\xF0\x9F\x8F\xBD  12 "
    "\xD9\xA1\xD9\xA2\n\nwon't <|eot_id|>";

// Random text: words, spaces of all kinds, digits, marks, ideographs, emoji, punctuation. Precomposed, so
// that NFC leaves it alone.
std::string random_text(uint64_t seed) {
  uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
  const auto next = [&](uint64_t below) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state % below;
  };
  const char* const words[] = {"the",
                               " hello",
                               " it's",
                               "I'LL",
                               "\xC3\xA9t\xC3\xA9",
                               "\xE2\x80\x83",
                               "\n\n",
                               " \t ",
                               "12345",
                               "\xD0\xBC\xD0\xB8\xD1\x80",
                               "\xEA\xB0\x80",
                               "...",
                               "<|im_end|>",
                               "\xF0\x9F\x91\x8D",
                               " \r\n",
                               "__"};
  std::string text;
  for (uint64_t i = next(30); i > 0; --i) {
    if (next(3)) {
      text += words[next(std::size(words))];
    } else {
      base::append_utf8(text, next(2) ? static_cast<char32_t>(0x4E00 + next(0x5000))
                                      : static_cast<char32_t>(0x20 + next(0x2E0)));
    }
  }
  return text;
}

// A published model's tokenizer lies beside the whole collection of recorded numbers alone.
bool is_published(const std::string& name) { return name.starts_with("real_"); }

TEST(TokenizerText, DecodesToWhatWasEncoded) {
  for (const char* name :
       {"bpe_added", "bpe_digits", "bpe_llama3", "bpe_gpt2", "real_qwen3", "real_smollm2"}) {
    const std::string folder = std::string("tokenizers/") + name;
    if (is_published(name) && !test::has_golden(folder)) continue;
    const auto tokenizer = Tokenizer::from_files(test::golden_path(folder));
    for (uint64_t seed = 0; seed < 300; ++seed) {
      const std::string text = random_text(seed);
      const Encoding encoding = tokenizer->encode_with_offsets(text, false);
      EXPECT_EQ(tokenizer->decode(encoding.ids, false), text) << name;
      EXPECT_EQ(encoding.ids, tokenizer->encode(text, false)) << name;
      uint32_t end = 0;
      for (const auto& [first, last] : encoding.offsets) {
        EXPECT_LE(first, end);
        EXPECT_GE(last, end);
        end = last;
      }
      EXPECT_EQ(end, text.size());
    }
  }
}

// Offsets as in Python's offset_mapping, in bytes.
TEST(TokenizerText, GivesTheOffsetsOfTheReference) {
  struct Case {
    const char* name;
    Ids ids;
    Offsets offsets;
  };
  const std::vector<Case> cases = {
      {"bpe_digits",
       {1,  63,  84,  133, 110, 142, 236, 376, 880, 89,  226, 757, 226, 456, 241, 377, 243, 127, 896, 22,
        23, 226, 155, 100, 155, 101, 204, 204, 92,  348, 285, 904, 97,  74,  84,  89,  68,  340, 97,  35},
       {{0, 12},  {12, 13}, {13, 14}, {14, 16}, {14, 16}, {16, 18}, {16, 18}, {18, 20}, {20, 22}, {22, 23},
        {23, 24}, {24, 33}, {33, 34}, {34, 38}, {34, 38}, {38, 42}, {38, 42}, {38, 42}, {42, 44}, {44, 45},
        {45, 46}, {46, 47}, {47, 49}, {47, 49}, {49, 51}, {49, 51}, {51, 52}, {52, 53}, {53, 54}, {54, 56},
        {56, 58}, {58, 60}, {60, 61}, {61, 62}, {62, 63}, {63, 64}, {64, 65}, {65, 67}, {67, 68}, {68, 69}}},
      {"bpe_added",
       {1101, 57,  78,  127, 104, 136, 230, 220, 533, 83,  220, 751, 220, 450,
        235,  370, 237, 121, 220, 220, 16,  17,  220, 149, 94,  149, 95,  198,
        198,  86,  342, 279, 907, 91,  68,  78,  83,  62,  334, 91,  29},
       {{0, 12},  {12, 13}, {13, 14}, {14, 16}, {14, 16}, {16, 18}, {16, 18}, {18, 19}, {19, 20},
        {22, 23}, {23, 24}, {24, 33}, {33, 34}, {34, 38}, {34, 38}, {38, 42}, {38, 42}, {38, 42},
        {42, 43}, {43, 44}, {44, 45}, {45, 46}, {46, 47}, {47, 49}, {47, 49}, {49, 51}, {49, 51},
        {51, 52}, {52, 53}, {53, 54}, {54, 56}, {56, 58}, {58, 60}, {60, 61}, {61, 62}, {62, 63},
        {63, 64}, {64, 65}, {65, 67}, {67, 68}, {68, 69}}},
      {"real_qwen3",
       {151644, 57,  78,  12179, 136, 230, 13916, 75402, 21894, 102819, 61804, 235, 145375, 220, 220, 16,
        17,     220, 149, 94,    149, 95,  271,   54667, 944,   82639,  68,    354, 842,    91,  29},
       {{0, 12},  {12, 13}, {13, 14}, {14, 16}, {16, 18}, {16, 18}, {18, 23}, {23, 27},
        {27, 30}, {30, 33}, {33, 38}, {34, 38}, {38, 42}, {42, 43}, {43, 44}, {44, 45},
        {45, 46}, {46, 47}, {47, 49}, {47, 49}, {49, 51}, {49, 51}, {51, 53}, {53, 56},
        {56, 58}, {58, 61}, {61, 62}, {62, 64}, {64, 67}, {67, 68}, {68, 69}}},
      {"real_smollm2",
       {1,   74,  95,    26547, 151, 226,   297, 151, 219, 100, 17097, 241, 115, 40993, 179,
        120, 248, 15107, 235,   231, 10813, 233, 138, 256, 33,  34,    216, 164, 111,   164,
        112, 198, 198,   38955, 982, 2067,  108, 85,  320, 79,  311,   108, 46},
       {{0, 12},  {12, 13}, {13, 14}, {14, 16}, {16, 18}, {16, 18}, {18, 20}, {20, 22}, {20, 22},
        {22, 23}, {23, 27}, {24, 27}, {24, 27}, {27, 30}, {30, 33}, {30, 33}, {30, 33}, {33, 38},
        {34, 38}, {34, 38}, {38, 42}, {38, 42}, {38, 42}, {42, 44}, {44, 45}, {45, 46}, {46, 47},
        {47, 49}, {47, 49}, {49, 51}, {49, 51}, {51, 52}, {52, 53}, {53, 56}, {56, 58}, {58, 60},
        {60, 61}, {61, 62}, {62, 64}, {64, 65}, {65, 67}, {67, 68}, {68, 69}}},
      {"bpe_llama3",
       {1794, 27,  91,  72,  76, 62,  330, 260, 83,  91,  29,  57,  78,  127, 104,
        136,  230, 349, 643, 83, 220, 627, 612, 220, 355, 235, 331, 237, 121, 220,
        220,  587, 220, 149, 94, 149, 95,  198, 198, 86,  751, 271, 220, 1798},
       {{0, 0},   {0, 1},   {1, 2},   {2, 3},   {3, 4},   {4, 5},   {5, 7},   {7, 9},   {9, 10},
        {10, 11}, {11, 12}, {12, 13}, {13, 14}, {14, 16}, {14, 16}, {16, 18}, {16, 18}, {18, 20},
        {20, 22}, {22, 23}, {23, 24}, {24, 33}, {30, 33}, {33, 34}, {34, 38}, {34, 38}, {38, 42},
        {38, 42}, {38, 42}, {42, 43}, {43, 44}, {44, 46}, {46, 47}, {47, 49}, {47, 49}, {49, 51},
        {49, 51}, {51, 52}, {52, 53}, {53, 54}, {54, 56}, {56, 58}, {58, 59}, {59, 69}}},
      {"spm_style_bpe",
       {1,   685, 130, 310, 313, 101, 457, 376, 320, 130, 286, 96,  315, 201, 177, 210, 142,
        470, 330, 320, 719, 355, 246, 165, 151, 147, 246, 165, 149, 195, 355, 862, 355, 223,
        167, 223, 168, 262, 262, 323, 315, 417, 685, 130, 306, 315, 320, 101, 429, 130, 286},
       {{0, 0},   {0, 1},   {1, 2},   {2, 3},   {3, 4},   {4, 5},   {5, 7},   {7, 9},   {9, 10},
        {10, 11}, {11, 12}, {12, 13}, {13, 14}, {14, 16}, {14, 16}, {16, 18}, {16, 18}, {18, 20},
        {20, 22}, {22, 23}, {23, 33}, {33, 34}, {34, 38}, {34, 38}, {34, 38}, {34, 38}, {38, 42},
        {38, 42}, {38, 42}, {38, 42}, {42, 43}, {43, 46}, {46, 47}, {47, 49}, {47, 49}, {49, 51},
        {49, 51}, {51, 52}, {52, 53}, {53, 54}, {54, 55}, {55, 58}, {58, 60}, {60, 61}, {61, 62},
        {62, 63}, {63, 64}, {64, 65}, {65, 67}, {67, 68}, {68, 69}}}};
  for (const Case& c : cases) {
    const std::string folder = std::string("tokenizers/") + c.name;
    if (is_published(c.name) && !test::has_golden(folder)) continue;
    const Encoding encoding =
        Tokenizer::from_files(test::golden_path(folder))->encode_with_offsets(kSample, true);
    EXPECT_EQ(encoding.ids, c.ids) << c.name;
    EXPECT_EQ(encoding.offsets, c.offsets) << c.name;
  }
}

TEST(TokenizerText, RefusesWhatIsNoText) {
  const auto tokenizer = open(tiny_json());
  for (const auto& [text, message] :
       {std::pair<std::string, std::string>{"ab\xFF", "the text is not valid UTF-8 at byte 2"},
        {"\xED\xA0\x80", "the text is not valid UTF-8 at byte 0"},
        {"hello\xC3", "the text is not valid UTF-8 at byte 5"}}) {
    const Error error = error_of([&] { tokenizer->encode(text, true); });
    EXPECT_EQ(error.status(), Status::format);
    EXPECT_EQ(error.message(), message);
    EXPECT_EQ(error_of([&] { tokenizer->encode_with_offsets(text, true); }).message(), message);
  }
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(std::string("a\0b", 3), true), false),
            std::string("a\0b", 3));
}

TEST(TokenizerText, RefusesIdsOutsideTheVocabulary) {
  const auto tokenizer = open(tiny_json());
  for (const int32_t id : {-1, 265, INT32_MAX, INT32_MIN}) {
    const Error error = error_of([&] { tokenizer->decode(Ids{97, id}, false); });
    EXPECT_EQ(error.status(), Status::invalid_argument);
    EXPECT_EQ(error.message(), fmt::format("the token id {}: the vocabulary has the ids 0 to 264", id));
  }
}

// One word of three million bytes: seconds if the time grows with its square, far less else.
TEST(TokenizerText, TakesLongWords) {
  const auto tokenizer = open(tiny_json());
  std::string text;
  for (int i = 0; i < 600000; ++i) text += "hello";
  EXPECT_EQ(tokenizer->encode(text, false), Ids(600000, 259));
  EXPECT_EQ(tokenizer->encode(std::string(1000001, ' '), false).size(), 500001u);
  EXPECT_EQ(tokenizer->encode(std::string(1000000, '!'), false), Ids(1000000, '!'));
}

TEST(TokenizerText, EndsASearchThatWouldNot) {
  Json json = tiny_json();
  json["pre_tokenizer"] = {
      {"type", "Split"}, {"pattern", {{"Regex", "(a|aa)+[bd]"}}}, {"behavior", "Isolated"}};
  const auto tokenizer = open(json);
  const Error error = error_of([&] { tokenizer->encode(std::string(60, 'a') + "c", false); });
  EXPECT_EQ(error.status(), Status::unsupported);
  EXPECT_NE(error.message().find("'(a|aa)+[bd]' cannot be searched"), std::string::npos) << error.message();
  EXPECT_EQ(tokenizer->encode("aab", false), (Ids{97, 97, 98}));
}

TEST(TokenizerText, IsTheSameFromManyThreads) {
  const auto tokenizer = open(tiny_json());
  std::vector<std::string> texts;
  for (uint64_t seed = 0; seed < 100; ++seed) texts.push_back(random_text(seed));
  std::vector<Ids> expected;
  const auto fresh = open(tiny_json());
  for (const std::string& text : texts) expected.push_back(fresh->encode(text, true));
  std::atomic<size_t> equal = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (size_t i = 0; i < texts.size(); ++i)
        equal += tokenizer->encode(texts[i], true) == expected[i] &&
                 tokenizer->decode(expected[i], false) == texts[i];
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(equal, 4 * texts.size());
}

}  // namespace
}  // namespace trl::text
