// Directories with a tokenizer.model alone: ids, pieces and texts of the sentencepiece library of Python.
#include <gtest/gtest.h>

#include "support/golden.h"
#include "text/tokenizer/decode_stream.h"
#include "text/tokenizer_tiny.h"

namespace trl::text {
namespace {
using namespace tiny;

bool has_module() { return base::file_exists(TRL_BINARY_DIR "/lib/trl/libtrl_sentencepiece.so"); }

std::unique_ptr<Tokenizer> open_model(const std::string& name, const Json& config = nullptr) {
  Folder folder;
  folder.put("tokenizer.model", test::read_golden("tokenizers/" + name + "/tokenizer.model"));
  if (!config.is_null()) folder.put("tokenizer_config.json", config.dump());
  return Tokenizer::from_directory(folder.path());
}

TEST(SentencePiece, GivesTheRecordedPieces) {
  if (!has_module()) {
    const Error error = error_of([] { open_model("sentencepiece_bpe"); });
    EXPECT_EQ(error.status(), Status::unsupported);
    EXPECT_NE(error.message().find("which this build lacks"), std::string::npos) << error.message();
    return;
  }
  for (const auto& [name, cases] :
       {std::pair<std::string, size_t>{"sentencepiece_bpe", 190}, {"sentencepiece_small", 98}}) {
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
    EXPECT_EQ(run, cases);
  }
}

TEST(SentencePiece, KnowsTheTokensThatOtherFilesName) {
  if (!has_module()) return;
  const auto plain = open_model("sentencepiece_small");
  EXPECT_EQ(plain->token_to_id("no such piece"), std::nullopt);
  const Json config = {
      {"bos_token", "<s>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}, {"chat_template", "{{ 1 }}"}};
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
  const auto again = Tokenizer::from_directory(saved.path());
  EXPECT_EQ(again->special().eos, "<s>");
  EXPECT_EQ(again->encode("<s>a</s>", true), named->encode("<s>a</s>", true));
  EXPECT_EQ(error_of([&] { named->with({.pad = "none"}); }).key(), "pad_token");
}

TEST(SentencePiece, RefusesWhatIsNoModel) {
  if (!has_module()) return;
  const std::string model = test::read_golden("tokenizers/sentencepiece_small/tokenizer.model");
  for (const std::string& bytes :
       {std::string(), std::string("x"), model.substr(0, 100), std::string(1000, '\xFF')}) {
    Folder folder;
    folder.put("tokenizer.model", bytes);
    const Error error = error_of([&] { Tokenizer::from_directory(folder.path()); });
    EXPECT_EQ(error.status(), Status::format) << bytes.size();
    EXPECT_NE(error.message().find("tokenizer.model: no SentencePiece model: "), std::string::npos)
        << error.message();
  }
}

}  // namespace
}  // namespace trl::text
