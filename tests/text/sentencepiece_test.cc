// Directories with a tokenizer.model alone: ids, pieces and texts of the sentencepiece library of Python.
#include <gtest/gtest.h>

#include "support/golden.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/tokenizer.h"
#include "text/tokenizer_tiny.h"

namespace trl::text {
namespace {
using namespace tiny;

bool has_module() { return base::file_exists(TRL_BINARY_DIR "/lib/trl/libtrl_sentencepiece.so"); }

std::unique_ptr<Tokenizer> open_model(const std::string& name, const Json& config = nullptr) {
  Folder folder;
  folder.put("tokenizer.model", test::read_golden("tokenizers/" + name + "/tokenizer.model"));
  if (!config.is_null()) folder.put("tokenizer_config.json", config.dump());
  return Tokenizer::from_files(folder.path());
}

// Returns the number of cases.
size_t compare_with_recorded(const std::string& name) {
  const Json& recorded = test::golden_json("tokenizers/" + name + "/cases_sentencepiece.json");
  const auto tokenizer = open_model(name);
  EXPECT_EQ(tokenizer->vocab_size(), recorded.at("vocab_size").get<int64_t>());
  size_t run = 0;
  for (const Json& c : recorded.at("cases")) {
    SCOPED_TRACE(name + ": " + c.at("text").dump());
    const Ids ids = tokenizer->encode(c.at("text").get<std::string>(), true);
    EXPECT_EQ(ids, c.at("ids").get<Ids>());
    for (size_t i = 0; i < ids.size(); ++i) {
      const std::string piece = c.at("pieces")[i];
      EXPECT_EQ(tokenizer->id_to_token(ids[i]), piece);
      EXPECT_EQ(tokenizer->token_to_id(piece), ids[i]);
    }
    EXPECT_EQ(tokenizer->decode(ids, false), c.at("decoded").get<std::string>());
    DecodeStream stream(*tokenizer, false);
    std::string text;
    for (const int32_t id : ids) text += stream.step(id);
    EXPECT_EQ(text + stream.finish(), c.at("decoded").get<std::string>());
    ++run;
  }
  return run;
}

TEST(SentencePiece, GivesTheRecordedPieces) {
  if (!has_module()) {
    const Error error = error_of([] { open_model("sentencepiece_bpe"); });
    EXPECT_EQ(error.status(), Status::unsupported);
    EXPECT_NE(error.message().find("which this build lacks"), std::string::npos) << error.message();
    return;
  }
  for (const auto& [name, cases] :
       {std::pair<std::string, size_t>{"sentencepiece_bpe", 190}, {"sentencepiece_small", 98}})
    EXPECT_EQ(compare_with_recorded(name), cases);
}

// A table of NFKC, which lies with the whole collection alone.
TEST(SentencePiece, NormalizesAsRecorded) {
  TRL_NEED_GOLDEN("tokenizers/sentencepiece_unigram/cases_sentencepiece.json");
  if (has_module()) {
    EXPECT_EQ(compare_with_recorded("sentencepiece_unigram"), 190u);
  }
}
TEST(SentencePiece, KnowsTheTokensThatOtherFilesName) {
  if (!has_module()) return;
  const auto plain = open_model("sentencepiece_small");
  EXPECT_EQ(plain->token_to_id("no such piece"), std::nullopt);
  Json config = {
      {"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}, {"chat_template", "{{ 1 }}"}};
  // transformers adds them where it is told to alone.
  EXPECT_EQ(open_model("sentencepiece_small", config)->encode("a", true), plain->encode("a", false));
  config["add_bos_token"] = true;
  const auto named = open_model("sentencepiece_small", config);
  const int32_t bos = named->token_to_id("<s>").value();
  const int32_t eos = named->token_to_id("</s>").value();
  Ids want = {bos};
  for (const int32_t id : plain->encode("a", false)) want.push_back(id);
  EXPECT_EQ(named->encode("a", true), want);
  want.push_back(eos);
  EXPECT_EQ(named->encode("<s>a</s>", false), want);
  EXPECT_EQ(named->decode(want, true), "a");
  EXPECT_EQ(named->decode(want, false), "<s>a</s>");
  const Encoding encoding = named->encode_with_offsets("<s>a</s>", false);
  EXPECT_EQ(encoding.ids, want);
  EXPECT_EQ(encoding.offsets.front(), (std::pair<uint32_t, uint32_t>{0, 3}));
  EXPECT_EQ(encoding.offsets.back(), (std::pair<uint32_t, uint32_t>{4, 8}));
  EXPECT_EQ(named->special().eos, "</s>");
  EXPECT_EQ(named->chat_templates().at("default"), "{{ 1 }}");
  Folder saved;
  for (const auto& [name, bytes] : named->with({.eos = "<s>"})->files()) saved.put(name, bytes);
  const auto again = Tokenizer::from_files(saved.path());
  EXPECT_EQ(again->special().eos, "<s>");
  EXPECT_EQ(again->encode("<s>a</s>", true), named->encode("<s>a</s>", true));
  EXPECT_EQ(error_of([&] { named->with({.pad = "none"}); }).key(), "pad_token");
}

// As in transformers, where a directory is one for it; by itself SentencePiece cuts them into letters.
TEST(SentencePiece, RecognisesControlPiecesBesideAConfiguration) {
  if (!has_module()) return;
  const auto bare = open_model("sentencepiece_small");
  EXPECT_GT(bare->encode("</s>", false).size(), 1u);
  const auto plain = open_model("sentencepiece_small", Json::object());
  EXPECT_EQ(plain->encode("</s>", false), (Ids{plain->token_to_id("</s>").value()}));
  EXPECT_EQ(plain->decode(plain->encode("a</s>", false), true), "a");
  Folder saved;
  const auto named = bare->with({.eos = "</s>"});
  for (const auto& [name, bytes] : named->files()) saved.put(name, bytes);
  EXPECT_EQ(named->encode("a</s>", false), plain->encode("a</s>", false));
  EXPECT_EQ(Tokenizer::from_files(saved.path())->encode("a</s>", false), named->encode("a</s>", false));
}

TEST(SentencePiece, RefusesWhatIsNoModel) {
  if (!has_module()) return;
  const std::string model = test::read_golden("tokenizers/sentencepiece_small/tokenizer.model");
  for (const std::string& bytes :
       {std::string(), std::string("x"), model.substr(0, 100), std::string(1000, '\xFF')}) {
    Folder folder;
    folder.put("tokenizer.model", bytes);
    const Error error = error_of([&] { Tokenizer::from_files(folder.path()); });
    EXPECT_EQ(error.status(), Status::format) << bytes.size();
    EXPECT_NE(error.message().find("tokenizer.model: not a SentencePiece model: "), std::string::npos)
        << error.message();
  }
}

// A field of a Protocol Buffers message whose value has less than 128 bytes, or is a number below 128.
std::string field(int number, const std::string& bytes) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(bytes.size())} + bytes;
}
std::string field(int number, int value) {
  return {static_cast<char>(number << 3), static_cast<char>(value)};
}
std::string piece(const std::string& text, int type = 1) { return field(1, field(1, text) + field(3, type)); }

// What the library would end the process for, read outside of its tables for, or print.
TEST(SentencePiece, NamesWhatIsBrokenInAModel) {
  if (!has_module()) return;
  const std::string start = piece("<unk>", 2) + piece("a");
  const auto message = [](const std::string& model) {
    Folder folder;
    folder.put("tokenizer.model", model);
    return error_of([&] { Tokenizer::from_files(folder.path()); }).message();
  };
  const auto expect = [&](const std::string& model, const std::string& part) {
    EXPECT_NE(message(model).find("tokenizer.model: not a SentencePiece model: " + part), std::string::npos)
        << message(model);
  };
  EXPECT_EQ(message(start), "");
  EXPECT_EQ(message(start + field(2, field(3, 2))), "");
  expect(field(2, ""), "it has no pieces");
  expect(start + piece(""), "piece 2 has 0 bytes: 1 to 1024 are read");
  expect(start + piece(std::string("b\0c", 3)), "piece 2 is not UTF-8 text, or has a zero in it");
  expect(start + piece("\xFF"), "piece 2 is not UTF-8 text");
  expect(start + piece("a", 3), "piece 2 is 'a', as an earlier piece is");
  expect(start + piece("b", 7), "piece 2 has the type 7: 1 to 6 are known");
  expect(start + field(1, field(1, "b") + std::string("\x15\x00\x00\xC0\x7F", 5)),
         "piece 2 has a score that is not finite");
  expect(start + field(1, field(1, 5)), "piece 2: its field 1 has another type");
  expect(start + field(1, "\x0A\x05x"), "piece 2 is not a Protocol Buffers message");
  expect(start + field(2, field(3, 9)), "model_type 9: known are 1 (unigram), 2 (bpe)");
  expect(start + field(2, "") + field(2, ""), "its field 2 occurs twice");
  expect(piece("a"), "Internal: unk is not defined.");
  std::string nested = start;
  for (size_t length = 2; length < 66; ++length) nested += piece(std::string(length, 'a'), 4);
  EXPECT_EQ(message(nested), "");
  expect(nested + piece(std::string(66, 'a'), 4), "65 user-defined pieces begin with one another");
}

std::string units(const std::vector<uint32_t>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), 4 * numbers.size()};
}

TEST(SentencePiece, RefusesARuleTableThatLeadsOutside) {
  const auto message = [](const std::vector<uint32_t>& trie, const std::string& replacements) {
    const std::string bytes = units({static_cast<uint32_t>(4 * trie.size())}) + units(trie) + replacements;
    return error_of([&] { Charsmap(bytes, "map").check_for_sentencepiece("map"); }).message();
  };
  constexpr uint32_t kLeaf = 1 << 8;
  std::vector<uint32_t> trie(256);
  trie[0] = 1 << 10;  // its base is 1, that of the unit behind 'a' 7
  trie[1 ^ 'a'] = 'a' | kLeaf | static_cast<uint32_t>(1 ^ 'a' ^ 7) << 10;
  trie[7] = 1u << 31;  // the replacement at 0
  EXPECT_EQ(message(trie, "b"), "");
  EXPECT_EQ(message(trie, std::string(257, 'b')), "map: a replacement of 257 bytes: at most 256 are read");
  std::vector<uint32_t> longer = trie;
  longer[0] = 256 << 10;
  longer.resize(257);
  EXPECT_EQ(message(longer, "b"), "map: unit 0 of the trie leads to unit 511 of 257");
  std::vector<uint32_t> cyclic = trie;
  cyclic[7 ^ 'b'] = 'b' | kLeaf | static_cast<uint32_t>(7 ^ 'b' ^ 7) << 10;
  EXPECT_EQ(message(cyclic, "b"), "map: a text of more than 255 bytes");
}

TEST(SentencePiece, AddsTokensThatTheModelLacks) {
  if (!has_module()) return;
  for (const Json& config :
       {Json(nullptr), Json{{"eos_token", "</s>"}, {"tokenizer_class", "LlamaTokenizer"}}}) {
    const auto plain = open_model("sentencepiece_small", config);
    const auto size = static_cast<int32_t>(plain->vocab_size());
    const std::vector<AddedToken> tokens = {{.content = "<|turn|>", .special = true},
                                            {.content = "<unk>", .special = true},  // it has an id
                                            {.content = "<word>"}};
    const auto more = plain->with_added(tokens);
    EXPECT_EQ(more->vocab_size(), size + 2);
    EXPECT_EQ(more->token_to_id("<|turn|>"), size);
    EXPECT_EQ(more->token_to_id("<word>"), size + 1);
    Ids want = {size};
    for (const int32_t id : plain->encode("a", false)) want.push_back(id);
    want.push_back(size + 1);
    EXPECT_EQ(more->encode("<|turn|>a<word>", false), want);
    EXPECT_EQ(more->decode(want, true), "a<word>");

    const auto ready = more->with({.eos = "<|turn|>", .pad = "<word>"});
    Folder saved;
    for (const auto& [name, bytes] : ready->files()) saved.put(name, bytes);
    const auto again = Tokenizer::from_files(saved.path());
    EXPECT_EQ(again->encode("<|turn|>a<word>", false), want);
    EXPECT_EQ(again->decode(want, true), "a");  // the pad token is a special one
    EXPECT_EQ(again->special().eos, "<|turn|>");
    EXPECT_EQ(again->special().pad, "<word>");
    // transformers takes the ids from here; without a class it takes that of the model.
    const Json written = base::read_json_file(saved.path() + "/tokenizer_config.json");
    EXPECT_EQ(written.at("added_tokens_decoder").at(std::to_string(size)).at("content"), "<|turn|>");
    EXPECT_EQ(written.contains("tokenizer_class"), !config.is_null());
  }
}

}  // namespace
}  // namespace trl::text
