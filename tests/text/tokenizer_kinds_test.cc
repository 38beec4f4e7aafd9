// Models, normalizers, pre-tokenizers, post-processors and decoders, each alone, as `tokenizers` 0.23.3 runs
// them.
#include <gtest/gtest.h>

#include "support/golden.h"
#include "text/tokenizer/json_reader.h"
#include "text/tokenizer_tiny.h"

namespace trl::text {
namespace {
using namespace tiny;

Json with_model(const Json& model) {
  return {{"version", "1.0"},
          {"added_tokens", Json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", nullptr},
          {"post_processor", nullptr},
          {"decoder", nullptr},
          {"model", model}};
}

// Every byte is a token.
Json byte_model() {
  Json vocab = Json::object();
  for (int byte = 0; byte < 256; ++byte) vocab[fmt::format("<0x{:02X}>", byte)] = byte;
  return {{"type", "BPE"}, {"byte_fallback", true}, {"vocab", vocab}, {"merges", Json::array()}};
}

Offsets pairs(const Json& flat) {
  Offsets offsets;
  for (size_t i = 0; i < flat.size(); i += 2) offsets.emplace_back(flat[i], flat[i + 1]);
  return offsets;
}

void expect_encoding(const Tokenizer& tokenizer, const std::string& text, const Json& ids,
                     const Json& offsets) {
  const Encoding encoding = tokenizer.encode_with_offsets(text, true);
  EXPECT_EQ(encoding.ids, ids.get<Ids>()) << Json(text);
  EXPECT_EQ(encoding.offsets, pairs(offsets)) << Json(text);
  EXPECT_EQ(tokenizer.encode(text, true), ids.get<Ids>()) << Json(text);
}

TEST(TokenizerKinds, StepsGiveTheRecordedBytesAndOffsets) {
  const Json& recorded = test::golden_json("tokenizers/steps/cases.json");
  size_t run = 0;
  for (const Json& c : recorded.at("cases")) {
    SCOPED_TRACE(c.at("step").dump().substr(0, 120));
    Json json = with_model(byte_model());
    json[c.at("kind").get<std::string>()] = c.at("step");
    const auto tokenizer = open(json);
    for (size_t i = 0; i < recorded.at("texts").size(); ++i, ++run) {
      const Json& want = c.at("encoded")[i];
      expect_encoding(*tokenizer, recorded.at("texts")[i], want.at("ids"), want.at("offsets"));
    }
  }
  EXPECT_EQ(run, 14u * 16u);
}

TEST(TokenizerKinds, DecodersGiveTheRecordedTexts) {
  size_t run = 0;
  for (const Json& c : test::golden_json("tokenizers/steps/cases.json").at("decoders")) {
    SCOPED_TRACE(c.at("step").dump());
    Json vocab = Json::object();
    for (const Json& word : c.at("words")) vocab[word.get<std::string>()] = vocab.size();
    Json json = with_model({{"type", "BPE"}, {"vocab", vocab}, {"merges", Json::array()}});
    json["decoder"] = c.at("step");
    const auto tokenizer = open(json);
    for (const Json& d : c.at("decoded")) {
      EXPECT_EQ(tokenizer->decode(d.at("ids").get<Ids>(), false), d.at("text").get<std::string>());
      ++run;
    }
  }
  EXPECT_EQ(run, 11u);
}

TEST(TokenizerKinds, ModelsCutWordsAsRecorded) {
  size_t run = 0;
  for (const Json& c : test::golden_json("tokenizers/model_kinds/cases.json")) {
    SCOPED_TRACE(c.at("model").dump().substr(0, 400));
    const auto tokenizer = open(with_model(c.at("model")));
    for (const Json& e : c.at("encoded")) {
      expect_encoding(*tokenizer, e[0], e[1], e[2]);
      ++run;
    }
  }
  EXPECT_EQ(run, 8u * 44u);
}

Json unigram(const Json& vocabulary) { return with_model({{"type", "Unigram"}, {"vocab", vocabulary}}); }
Json word_piece(const Json& vocabulary, const std::string& unknown = "?") {
  return with_model({{"type", "WordPiece"},
                     {"unk_token", unknown},
                     {"continuing_subword_prefix", "##"},
                     {"max_input_chars_per_word", 5},
                     {"vocab", vocabulary}});
}

TEST(TokenizerKinds, NamesTheTextThatNoTokenMakes) {
  const Json scores = Json::array({Json::array({"a", -1}), Json::array({"ab", -1.5})});
  const auto pieces = open(unigram(scores));
  EXPECT_EQ(pieces->encode("aab", false), (Ids{0, 1}));
  const Error piece = error_of([&] { pieces->encode("ab\xC3\xA9", false); });
  EXPECT_EQ(piece.status(), Status::format);
  EXPECT_NE(piece.message().find("tokenizer.json.model: '\xC3\xA9' is not a token, and unk_id names none"),
            std::string::npos)
      << piece.message();
  const auto words = open(word_piece({{"a", 0}, {"##b", 1}}));
  EXPECT_EQ(words->encode("ab", false), (Ids{0, 1}));
  const Error word = error_of([&] { words->encode("abc", false); });
  EXPECT_NE(word.message().find("no tokens form the word 'abc', and unk_token '?' is not in the vocabulary"),
            std::string::npos)
      << word.message();
  EXPECT_EQ(error_of([&] { words->encode("abbbbb", false); }).status(), Status::format);  // too long
}

// Files from before models named their type.
TEST(TokenizerKinds, KnowsAModelByWhatItHolds) {
  Json json = word_piece({{"?", 0}, {"a", 1}});
  json["model"].erase("type");
  EXPECT_EQ(open(json)->encode("ab", false), (Ids{0}));
  json["model"] = {{"unk_id", 0}, {"vocab", Json::array({Json::array({"?", 0}), Json::array({"a", -1})})}};
  EXPECT_EQ(open(json)->encode("ab", false), (Ids{1, 0}));
}

// What a normalizer takes from the beginning of a text is its beginning no longer.
TEST(TokenizerKinds, MarksTheFirstCharacterOfTheTextAlone) {
  Json json = unigram(
      Json::array({Json::array({"?", 0}), Json::array({"\xE2\x96\x81", -1}), Json::array({"a", -1})}));
  json["model"]["unk_id"] = 0;
  json["normalizer"] = {{"type", "Strip"}, {"strip_left", true}, {"strip_right", false}};
  json["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", "\xE2\x96\x81"}, {"prepend_scheme", "first"}, {"split", true}};
  const auto tokenizer = open(json);
  EXPECT_EQ(tokenizer->encode("aa", false), (Ids{1, 2, 2}));
  EXPECT_EQ(tokenizer->encode("  aa", false), (Ids{2, 2}));
  EXPECT_EQ(tokenizer->encode_with_offsets("  aa", false).ids, (Ids{2, 2}));
}

// As serde_json rounds, which is not always to the nearest double.
TEST(TokenizerKinds, ReadsScoresAsSerdeDoes) {
  EXPECT_EQ(read_score("-0.5"), -0.5);
  EXPECT_EQ(read_score("-0"), 0);
  EXPECT_EQ(read_score("1e-3"), 0.001);
  EXPECT_EQ(read_score("12E+2"), 1200);
  EXPECT_EQ(read_score("0e999999999999"), 0);
  EXPECT_EQ(read_score("1e-400"), 0);
  EXPECT_EQ(read_score("1e400"), std::numeric_limits<double>::infinity());
  EXPECT_EQ(read_score("123456789012345678901234567890"), 12345678901234567890.0 * 1e10);
}

Json pieces_of(const std::string& text) { return Json::parse(text); }

TEST(TokenizerKinds, NamesWhatIsBroken) {
  const auto message = [](const Json& json) { return error_of([&] { open(json); }).message(); };
  const auto expect = [&](const Json& json, const char* part) {
    EXPECT_NE(message(json).find(part), std::string::npos) << message(json);
  };
  expect(unigram(pieces_of(R"([["a", -1], ["b"]])")),
         "model.vocab[1]: expected a list of one token and its score");
  expect(unigram(pieces_of(R"([["a", -1], [1, "b"]])")),
         "model.vocab[1]: expected a list of one token and its score");
  expect(unigram(pieces_of(R"([["a", -1, 2]])")),
         "model.vocab[0]: expected a list of one token and its score");
  expect(unigram(pieces_of(R"(["a"])")), "model.vocab[0]: expected a list of one token and its score");
  expect(unigram(pieces_of(R"([["a", [1]]])")), "model.vocab[0]: expected a list of one token and its score");
  const Json object = {{"a", 1}};
  expect(unigram(object), "model.vocab: an object instead of a list of tokens and scores");
  expect(unigram(Json::array()), "vocabulary is missing or empty");
  Json unknown = unigram(pieces_of(R"([["a", -1]])"));
  unknown["model"]["unk_id"] = 1;
  expect(unknown, "model.unk_id: 1 is out of range: 0 to 0");
  expect(word_piece(pieces_of(R"([["a", -1]])")),
         "model.vocab: a list instead of an object of tokens and ids");
  Json prefix = word_piece({{"a", 0}});
  prefix["model"].erase("continuing_subword_prefix");
  expect(prefix, "model: 'continuing_subword_prefix' is missing");
  Json bpe = tiny_json();
  bpe["model"]["vocab"] = pieces_of(R"([["a", -1]])");
  expect(bpe, "model.vocab: a list instead of an object of tokens and ids");
}

std::string base64(const std::string& bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t j = 0; j < 3; ++j)
      bits = bits << 8 | (i + j < bytes.size() ? static_cast<uint8_t>(bytes[i + j]) : 0);
    for (size_t j = 0; j < 4; ++j) text += i + j > bytes.size() ? '=' : kDigits[bits >> (18 - 6 * j) & 63];
  }
  return text;
}

std::string little_endian(const std::vector<uint32_t>& numbers) {
  std::string bytes;
  for (const uint32_t number : numbers)
    for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(number >> shift & 0xFF);
  return bytes;
}

TEST(TokenizerKinds, RefusesACharsmapThatPointsOutside) {
  const auto message = [](const std::string& map) {
    Json json = with_model(byte_model());
    json["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", map}};
    return error_of([&] { open(json); }).message();
  };
  const auto expect = [&](const std::string& map, const char* part) {
    EXPECT_NE(message(map).find("normalizer.precompiled_charsmap: "), std::string::npos) << message(map);
    EXPECT_NE(message(map).find(part), std::string::npos) << message(map);
  };
  EXPECT_EQ(message(base64(little_endian({4, 0}))), "");
  expect("", "0 bytes with a trie of 0 units");
  expect("!", "is not base64");
  expect("AAA", "is not base64");
  expect(base64(little_endian({0, 1, 2})), "12 bytes with a trie of 0 units");
  expect(base64(little_endian({12, 1, 2})), "12 bytes with a trie of 3 units");
  expect(base64(little_endian({0xFFFFFFFC})), "4 bytes with a trie of 1073741823 units");
  expect(base64(little_endian({4, 5u << 10})), "unit 0 of the trie points to unit 5 of 1");
  expect(base64(little_endian({8, 1u << 10 | 1u << 8, 0x80000003}) + "a"),
         "unit 1 of the trie points to byte 3 of 1 bytes of replacements");
  expect(base64(little_endian({8, 1u << 10 | 1u << 8, 0x80000001}) + "\xC3\xA9"), "points to byte 1 of 2");
  expect(base64(little_endian({4, 0}) + "\xFF"), "not valid UTF-8 at byte 0");
}

}  // namespace
}  // namespace trl::text
