// Files that are large or lead in a circle: an error or a tokenizer, soon, and within bounded memory.
#include <gtest/gtest.h>
#include <zlib.h>

#include <ctime>

#include "base/memory/system_memory.h"
#include "text/tokenizer_tiny.h"

namespace trl::text {
namespace {
using namespace tiny;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMeasured = false;
constexpr size_t kBytes = 10'000'000;
#else
constexpr bool kMeasured = true;
constexpr size_t kBytes = 100'000'000;
#endif

// Of this process, with all its threads: other programs do not count.
double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

std::string full_entry(size_t i, const std::string& content) {
  return fmt::format(R"({{"id":{},"content":"{}","single_word":false,"lstrip":false,"rstrip":false,)"
                     R"("normalized":false,"special":true}})",
                     265 + i, content);
}

// tokenizer.json with added tokens of kBytes.
template <typename Entry>
std::string large_json(const Entry& entry) {
  Json json = tiny_json();
  json["added_tokens"] = "HERE";
  const std::string text = json.dump(), mark = "\"HERE\"";
  std::string list = "[";
  for (size_t i = 0; list.size() < kBytes; ++i) list += (i > 0 ? "," : "") + entry(i);
  const size_t at = text.find(mark);
  return text.substr(0, at) + list + "]" + text.substr(at + mark.size());
}

// The error of opening these files, or "" where there is none.
std::string opened(const std::string& tokenizer, const std::string& config) {
  Folder folder;
  folder.put("tokenizer.json", tokenizer).put("tokenizer_config.json", config);
  const double begin = cpu_seconds();
  const int64_t before = base::resident_bytes();
  const Error error = error_of([&] { Tokenizer::from_files(folder.path()); });
  if (kMeasured) {
    EXPECT_LE(cpu_seconds() - begin, 20);
    EXPECT_LE(base::peak_resident_bytes() - before, int64_t{1} << 30);
  }
  return error.message();
}

TEST(TokenizerHostile, AddedTokensOf100Megabytes) {
  const std::string filler(1000, 'x');
  const auto ends_with = [](const std::string& text, const std::string& end) {
    EXPECT_TRUE(text.ends_with(end)) << text;
  };
  // 700,000 of them
  std::string message =
      opened(large_json([](size_t i) { return full_entry(i, fmt::format("<token {}>", i)); }), "{}");
  if (kMeasured) ends_with(message, "more than 4194304 values beside vocabulary and merges");
  // 100,000 that are long, and differ from their beginning on
  message = opened(large_json([&](size_t i) { return full_entry(i, fmt::format("{}{}", i, filler)); }), "{}");
  ends_with(message, "the added tokens have more than 4194304 bytes beside those that they begin with alike");
  // with as little of each as can be, the same id for all
  message = opened(large_json([](size_t) { return std::string(R"({"id":265,"content":"<same>"})"); }), "{}");
  if (kMeasured) ends_with(message, "more than 4194304 values beside vocabulary and merges");
  // one that is as long as all
  message = opened(large_json([](size_t) { return full_entry(0, std::string(kBytes, 'x')); }), "{}");
  ends_with(message, "bytes: at most 1024 are read");
  // in the other files
  std::string decoder = R"({"added_tokens_decoder":{)";
  for (size_t i = 0; decoder.size() < kBytes; ++i)
    decoder += fmt::format(R"({}"{}":{{"content":"<{}>","special":true}})", i > 0 ? "," : "", 265 + i, i);
  message = opened(tiny_json().dump(), decoder + "}}");
  if (kMeasured) ends_with(message, "more than 4194304 values beside vocabulary and merges");
}

// Each alone is short enough.
TEST(TokenizerHostile, NormalizedAddedTokens) {
  Json json = tiny_json();
  json["normalizer"] = {
      {"type", "Replace"}, {"pattern", {{"Regex", "^.+$"}}}, {"content", std::string(1'000'000, 'x')}};
  for (int i = 0; i < 1000; ++i)
    json["added_tokens"].push_back(added(265 + i, fmt::format("<{}>", i), "normalized"));
  const std::string message = opened(json.dump(), "{}");
  EXPECT_TRUE(message.ends_with("the added tokens, normalized, have more than 33554432 bytes")) << message;
}

// 200,000 work, even where names of all of them ask for their flags.
TEST(TokenizerHostile, ManyAddedTokens) {
  constexpr size_t kCount = kMeasured ? 200'000 : 20'000;
  Json json = tiny_json(), extra = Json::array();
  for (size_t i = 0; i < kCount; ++i) {
    const std::string content = fmt::format("<{}>", i);
    json["added_tokens"].push_back(added(static_cast<int>(265 + i), content));
    extra.push_back(content);
  }
  Json old = Json::object();
  for (size_t i = 0; i < kCount; ++i)
    static_cast<Json::object_t::Container&>(old.get_ref<Json::object_t&>())
        .emplace_back(fmt::format("<old {}>", i), 265 + kCount + i);
  Folder folder;
  folder.put("tokenizer.json", json.dump())
      .put("tokenizer_config.json", Json{{"extra_special_tokens", extra}}.dump())
      .put("added_tokens.json", old.dump());
  const double begin = cpu_seconds();
  const auto tokenizer = Tokenizer::from_files(folder.path());
  const auto other = tokenizer->with({.eos = "<7>"});
  if (kMeasured) {
    EXPECT_LE(cpu_seconds() - begin, 20);
  }
  EXPECT_EQ(tokenizer->encode("<0>he<19999><old 19999>", false),
            (Ids{265, 256, 265 + 19999, static_cast<int32_t>(265 + kCount + 19999)}));
  EXPECT_EQ(other->special().eos, "<7>");
}

TEST(TokenizerHostile, NamedTokensWithoutEnd) {
  std::string map = "{";
  for (int i = 0; i < 200'000; ++i) map += fmt::format(R"({}"{}_token":"he")", i > 0 ? "," : "", i);
  Folder folder;
  folder.put("tokenizer.json", tiny_json().dump()).put("special_tokens_map.json", map + "}");
  EXPECT_TRUE(error_of([&] { Tokenizer::from_files(folder.path()); })
                  .message()
                  .ends_with("special_tokens_map.json: 200000 tokens by name: at most 1024 are read"));
}

uint64_t crc_of(const Ids& ids) {
  std::string bytes;
  for (const int32_t id : ids)
    for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(id >> shift & 0xFF);
  return crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(bytes.size()));
}

Json with_model(const std::vector<std::string>& tokens, const std::vector<std::vector<std::string>>& merges,
                const Json& more) {
  Json json = tiny_json();
  Json vocab = Json::object();
  for (const std::string& token : tokens) vocab[token] = vocab.size();
  json["pre_tokenizer"] = json["decoder"] = nullptr;
  json["model"] = {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}};
  json["model"].update(more);
  return json;
}

// Merges of what later merges make, one twice; the numbers are those of `tokenizers`.
TEST(TokenizerHostile, MergesInACircle) {
  const auto tokenizer = open(
      with_model({"a", "b", "ab", "aba", "abab", "ba", "bab"},
                 {{"ab", "a"}, {"b", "ab"}, {"ab", "ab"}, {"a", "b"}, {"b", "a"}, {"aba", "b"}, {"a", "b"}},
                 Json::object()));
  std::string text;
  uint64_t state = 1;
  for (int i = 0; i < 2'000'000; ++i) {
    state = (state * 1103515245 + 12345) % (uint64_t{1} << 31);
    text += static_cast<char>('a' + state / 65536 % 2);
  }
  EXPECT_EQ(tokenizer->encode(text.substr(0, 12), false), (Ids{0, 2, 1, 1, 5, 5, 2, 1}));
  EXPECT_EQ(crc_of(tokenizer->encode(text.substr(0, 300), false)), 2320456218u);
  EXPECT_EQ(crc_of(tokenizer->encode(text.substr(0, 20000), false)), 569510465u);
  const double begin = cpu_seconds();
  size_t length = 0;
  for (const int32_t id : tokenizer->encode(text, false)) length += tokenizer->id_to_token(id)->size();
  EXPECT_EQ(length, text.size());
  if (kMeasured) {
    EXPECT_LE(cpu_seconds() - begin, 10);
  }
}

// A prefix that is a token, and the unknown one: a merge with it gives what it began with.
TEST(TokenizerHostile, MergesThatGiveTheirOwnPart) {
  const auto tokenizer =
      open(with_model({"a", "##", "##a", "aa", "##aa"},
                      {{"a", "##"}, {"##a", "##"}, {"a", "##a"}, {"##", "##a"}, {"##a", "##a"}},
                      {{"continuing_subword_prefix", "##"}, {"unk_token", "##"}}));
  EXPECT_EQ(tokenizer->encode("aéé", false), (Ids{0}));
  EXPECT_EQ(tokenizer->encode("éa", false), (Ids{2}));
  EXPECT_EQ(tokenizer->encode("éé", false), (Ids{1, 1}));
  EXPECT_EQ(tokenizer->encode("aaa", false), (Ids{3, 2}));
  EXPECT_EQ(tokenizer->encode("aéaéaa", false), (Ids{3, 4}));
  std::string long_one = "a";
  for (int i = 0; i < 200'000; ++i) long_one += "é";
  EXPECT_EQ(tokenizer->encode(long_one, false), (Ids{0}));
}

}  // namespace
}  // namespace trl::text
