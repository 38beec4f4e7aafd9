// What a tokenizer's class does to its tokenizer.json, against AutoTokenizer of transformers 5.23.
#include <gtest/gtest.h>

#include "support/golden.h"
#include "support/warnings.h"
#include "text/chat_template/chat_template.h"
#include "text/tokenizer_tiny.h"

namespace trl::text {
namespace {
using namespace tiny;

Json recorded() {
  Json all = test::golden_json("tokenizers/classes/cases.json");
  const Json& encoders = test::golden_json("tokenizers/classes/encoders.json");
  for (const Json& c : encoders.at("cases")) all["cases"].push_back(c);
  for (const auto& [base, texts] : encoders.at("texts").items()) all["texts"][base] = texts;
  return all;
}

std::unique_ptr<Tokenizer> open_files(const std::vector<std::pair<std::string, std::string>>& files,
                                      const std::string& model_type, base::LogSink* log = nullptr) {
  Folder folder;
  for (const auto& [name, bytes] : files) folder.put(name, bytes);
  if (!model_type.empty()) folder.put("config.json", Json{{"model_type", model_type}}.dump());
  return Tokenizer::from_files(folder.path(), log);
}

std::unique_ptr<Tokenizer> open_case(const Json& c, base::LogSink* log = nullptr) {
  Json json = base::read_json_file(
      test::golden_path("tokenizers/" + c.at("base").get<std::string>() + "/tokenizer.json"));
  for (const auto& [key, value] : c.at("edit").items()) json[key] = value;
  return open_files({{"tokenizer.json", json.dump()}, {"tokenizer_config.json", c.at("config").dump()}},
                    c.at("model_type"), log);
}

std::string name_of(const Json& c) {
  return fmt::format("{} of {} as {}: {}", c.at("base").dump(), c.at("model_type").dump(),
                     c.at("class").dump(), c.at("config").dump().substr(0, 200));
}

void expect_ids(const Tokenizer& tokenizer, const Json& texts, const Json& c) {
  for (size_t i = 0; i < texts.size(); ++i)
    EXPECT_EQ(tokenizer.encode(texts[i].get<std::string>(), false), c.at("ids")[i].get<Ids>()) << texts[i];
}

TEST(TokenizerClass, GivesWhatTransformersGives) {
  size_t run = 0;
  const Json all = recorded();
  for (const Json& c : all.at("cases")) {
    SCOPED_TRACE(name_of(c));
    const auto tokenizer = open_case(c);
    const Json& texts = all.at("texts").at(c.at("base").get<std::string>());
    expect_ids(*tokenizer, texts, c);
    EXPECT_EQ(tokenizer->encode("x", true), c.at("around")[0].get<Ids>());
    EXPECT_EQ(tokenizer->encode("x", false), c.at("around")[1].get<Ids>());
    EXPECT_EQ(tokenizer->decode(c.at("ids")[3].get<Ids>(), false), c.at("decoded")[0].get<std::string>());
    EXPECT_EQ(tokenizer->decode(c.at("ids")[3].get<Ids>(), true), c.at("decoded")[1].get<std::string>());
    EXPECT_EQ(tokenizer->decode(c.at("ids")[8].get<Ids>(), false), c.at("decoded")[2].get<std::string>());
    EXPECT_EQ(tokenizer->vocab_size(), c.at("size").get<int64_t>());
    const auto token = [&](const char* key) {
      const Json& text = c.at("special").at(key);
      return text.is_null() ? std::nullopt : std::optional(text.get<std::string>());
    };
    EXPECT_EQ(tokenizer->special().bos, token("bos_token"));
    EXPECT_EQ(tokenizer->special().eos, token("eos_token"));
    EXPECT_EQ(tokenizer->special().pad, token("pad_token"));
    EXPECT_EQ(tokenizer->special().unk, token("unk_token"));
    ++run;
  }
  EXPECT_EQ(run, 38u + 3u);
}

TEST(TokenizerClass, TokenizesChatRowsAsTransformersDoes) {
  const Json all = recorded();
  const ChatTemplate chat(all.at("chat_template").get<std::string>());
  for (const Json& c : all.at("cases")) {
    SCOPED_TRACE(name_of(c));
    const auto tokenizer = open_case(c);
    RenderOptions options;
    if (tokenizer->special().bos) options.variables["bos_token"] = *tokenizer->special().bos;
    if (tokenizer->special().eos) options.variables["eos_token"] = *tokenizer->special().eos;
    const std::string text = chat.render(all.at("messages"), options).text;
    EXPECT_EQ(tokenizer->encode(text, false), c.at("chat").get<Ids>()) << text;
  }
}

// The files that a tokenizer saves keep the class, also with another EOS.
TEST(TokenizerClass, SavedFilesGiveTheSameIds) {
  const Json all = recorded();
  for (const Json& c : all.at("cases")) {
    SCOPED_TRACE(name_of(c));
    const auto opened = open_case(c);
    const auto eos_id = static_cast<int32_t>(opened->vocab_size() - 1);
    const std::string eos = opened->id_to_token(eos_id).value();
    const auto saved = opened->with({.eos = eos});
    const auto again = open_files(saved->files(), c.at("model_type"));
    EXPECT_EQ(again->special().eos, eos);
    EXPECT_EQ(again->special().unk, saved->special().unk);
    // These put EOS after every text: the new one when they are opened again, as in transformers.
    const bool ends = c.at("class") == "T5Tokenizer" || c.at("class") == "XLMRobertaTokenizer";
    for (const char* text : {"Hello world", "  12 don't", "\xD0\x9F\xD1\x80\xD0\xB8"}) {
      Ids want = saved->encode(text, true);
      if (ends) want.back() = eos_id;
      EXPECT_EQ(again->encode(text, true), want) << text;
    }
  }
}

std::vector<std::string> warnings(const Json& tokenizer, const Json& config, const std::string& model_type) {
  test::Warnings log;
  open_files({{"tokenizer.json", tokenizer.dump()}, {"tokenizer_config.json", config.dump()}}, model_type,
             &log);
  return log.lines;
}

TEST(TokenizerClass, WarnsOnceOfStepsThatItReplaces) {
  Json json = tiny_json();
  const Json gpt2 = {{"tokenizer_class", "GPT2Tokenizer"}};
  EXPECT_EQ(warnings(json, gpt2, "llama").size(), 0u);
  const Json digits = {{"type", "Digits"}, {"individual_digits", true}};
  json["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {digits, byte_level()}}};
  EXPECT_EQ(warnings(json, {{"tokenizer_class", "PreTrainedTokenizerFast"}}, "llama").size(), 0u);
  const std::vector<std::string> lines = warnings(json, gpt2, "llama");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("tokenizer.json: GPT2Tokenizer replaces steps of this file, as in transformers: "
                          R"(pre_tokenizer is {"type":"ByteLevel"} for [{"individual_digits":true,)"),
            std::string::npos)
      << lines[0];
  EXPECT_EQ(lines[0].find("normalizer"), std::string::npos) << lines[0];
}

TEST(TokenizerClass, WarnsOfALlamaClassOverBytes) {
  const Json llama = {{"tokenizer_class", "LlamaTokenizerFast"}};
  const std::vector<std::string> lines = warnings(tiny_json(), llama, "llama");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("tokenizer_class is LlamaTokenizerFast"), std::string::npos) << lines[0];
  EXPECT_EQ(warnings(tiny_json(), llama, "mistral").size(), 0u);  // takes the file in any case
}

TEST(TokenizerClass, RefusesAClassThatItCannotBuild) {
  for (const std::string name :
       {"WhisperTokenizerFast", "AlbertTokenizer", "CamembertTokenizerFast", "DebertaTokenizer",
        "DebertaV2TokenizerFast", "MPNetTokenizer", "OpenAIGPTTokenizer"}) {
    const Error error = error_of([&] { open(tiny_json(), {{"tokenizer_class", name}}); });
    EXPECT_EQ(error.status(), Status::unsupported);
    EXPECT_NE(error.message().find("tokenizer_config.json: tokenizer_class: transformers rebuilds a " + name +
                                   " instead of using tokenizer.json, and this build cannot; known are "
                                   "BertTokenizer, "),
              std::string::npos)
        << error.message();
  }
}

TEST(TokenizerClass, RefusesTheClassOfAModelTypeThatItCannotBuild) {
  for (const std::string type : {"albert", "camembert", "deberta", "deberta-v2", "mpnet", "openai-gpt"}) {
    const Error error = error_of([&] { open_files({{"tokenizer.json", tiny_json().dump()}}, type); });
    EXPECT_EQ(error.status(), Status::unsupported) << type << ": " << error.message();
  }
}

}  // namespace
}  // namespace trl::text
