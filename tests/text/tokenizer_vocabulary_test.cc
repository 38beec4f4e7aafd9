// Vocabularies as GGUF holds them.
#include <gtest/gtest.h>

#include "support/golden.h"
#include "text/tokenizer_tiny.h"

namespace trl::text {
namespace {
using namespace tiny;

PlainVocabulary tiny_vocabulary() {
  PlainVocabulary v;
  v.model = "gpt2";
  v.pre = "gpt-2";
  v.tokens = tiny_tokens();
  v.merges = tiny_merges();
  v.token_types.assign(v.tokens.size(), 1);
  v.tokens.insert(v.tokens.end(), {"<s>", "</s>", "<say>"});
  v.token_types.insert(v.token_types.end(), {3, 3, 4});
  v.bos = 265;
  v.eos = 266;
  return v;
}

TEST(TokenizerVocabulary, EqualsTheTokenizerOfTheSameModel) {
  const Json& json = test::golden_json("tokenizers/bpe_digits/tokenizer.json");
  PlainVocabulary v;
  v.model = "gpt2";
  v.pre = "smollm";
  const auto& vocab = json.at("model").at("vocab");
  v.tokens.resize(vocab.size());
  for (const auto& [token, id] : vocab.items()) v.tokens[id.get<size_t>()] = token;
  for (const auto& merge : json.at("model").at("merges"))
    v.merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  v.token_types.assign(v.tokens.size(), 1);
  for (const auto& token : json.at("added_tokens")) v.token_types[token.at("id").get<size_t>()] = 3;
  v.bos = 1;
  v.eos = v.pad = 2;
  v.unk = 0;
  v.add_bos = false;
  v.chat_templates = {{"default", "{{ messages }}"}, {"tool_use", "{{ tools }}"}};
  const auto tokenizer = Tokenizer::from_vocabulary(v, "model.gguf");
  Folder folder;
  for (const auto& [name, bytes] : tokenizer->files()) folder.put(name, bytes);
  const auto reopened = Tokenizer::from_files(folder.path());
  size_t run = 0;
  const Json& recorded = test::golden_json("tokenizers/bpe_digits/cases.json");
  for (const Json& c : recorded.at("cases")) {
    const std::string text = c.at("text");
    EXPECT_EQ(tokenizer->encode(text, true), c.at("ids").get<Ids>()) << text;
    EXPECT_EQ(reopened->encode(text, true), c.at("ids").get<Ids>()) << text;
    EXPECT_EQ(tokenizer->decode(c.at("ids").get<Ids>(), true),
              c.at("decoded_skip_special").get<std::string>());
    ++run;
  }
  EXPECT_EQ(run, 230u);
  EXPECT_EQ(reopened->special().eos, "<|im_end|>");
  EXPECT_EQ(reopened->special().unk, "<|endoftext|>");
  EXPECT_EQ(reopened->chat_templates(), v.chat_templates);
}

TEST(TokenizerVocabulary, FollowsTokenTypes) {
  const auto tokenizer = Tokenizer::from_vocabulary(tiny_vocabulary(), "model.gguf");
  const Ids ids = tokenizer->encode("<s>hello<say></s>", true);
  EXPECT_EQ(ids, (Ids{265, 259, 267, 266}));
  EXPECT_EQ(tokenizer->decode(ids, true), "hello<say>");
  EXPECT_EQ(tokenizer->vocab_size(), 268);
  EXPECT_EQ(tokenizer->special().bos, "<s>");
  EXPECT_EQ(tokenizer->special().pad, std::nullopt);
}

TEST(TokenizerVocabulary, AddsBosAndEosWhenAskedTo) {
  PlainVocabulary v = tiny_vocabulary();
  v.add_bos = true;
  v.add_eos = true;
  EXPECT_EQ(Tokenizer::from_vocabulary(v, "f")->encode("he", true), (Ids{265, 256, 266}));
  EXPECT_EQ(Tokenizer::from_vocabulary(v, "f")->encode("he", false), (Ids{256}));
  v.add_bos.reset();
  v.add_eos = false;
  EXPECT_EQ(Tokenizer::from_vocabulary(v, "f")->encode("he", true), (Ids{256}));
  v.pre = "llama-bpe";
  EXPECT_EQ(Tokenizer::from_vocabulary(v, "f")->encode("he", true), (Ids{265, 256}));
  v.add_bos = false;
  EXPECT_EQ(Tokenizer::from_vocabulary(v, "f")->encode("he", true), (Ids{256}));
}

// Text whose pieces differ between the patterns: "ll" and the two spaces merge only inside of one piece.
TEST(TokenizerVocabulary, FollowsThePreTokenizer) {
  PlainVocabulary v = tiny_vocabulary();
  v.tokens.insert(v.tokens.end(), {"12", "123", "1234", "!" + byte_character('\n'), "'L"});
  v.token_types.insert(v.token_types.end(), 5, 1);
  for (const char* merge : {"1 2", "12 3", "123 4"}) v.merges.push_back(merge);
  v.merges.push_back("! " + byte_character('\n'));
  v.merges.push_back("' L");
  const auto ids = [&](const std::string& pre, const std::string& text) {
    v.pre = pre;
    return Tokenizer::from_vocabulary(v, "f")->encode(text, false);
  };
  EXPECT_EQ(ids("gpt-2", "1234!\n"), (Ids{270, '!', '\n'}));
  EXPECT_EQ(ids("smollm", "1234!\n"), (Ids{'1', '2', '3', '4', '!', '\n'}));
  EXPECT_EQ(ids("qwen2", "1234!\n"), (Ids{'1', '2', '3', '4', 271}));
  EXPECT_EQ(ids("llama-bpe", "1234!\n"), (Ids{269, '4', 271}));
  EXPECT_EQ(ids("smaug-bpe", "1234!\n"), (Ids{269, '4', 271}));
  EXPECT_EQ(ids("default", "1234!\n"), (Ids{269, '4', '!', '\n'}));
  EXPECT_EQ(ids("", "1234!\n"), (Ids{269, '4', '!', '\n'}));
  EXPECT_EQ(ids("qwen2", "'Lx"), (Ids{272, 'x'}));
  EXPECT_EQ(ids("gpt-2", "'Lx"), (Ids{'\'', 'L', 'x'}));
  EXPECT_EQ(ids("qwen2", "e\xCC\x81"), (Ids{261}));  // NFC
  // A mark of a lower class goes between the parts of a composed letter: U+00EA U+0323 is U+1EC7.
  EXPECT_EQ(ids("qwen2", "\xC3\xAA\xCC\xA3"), (Ids{0xE1, 0xBB, 0x87}));
  EXPECT_EQ(ids("llama-bpe", "e\xCC\x81"), (Ids{'e', 0xCC, 0x81}));
}

TEST(TokenizerVocabulary, NamesWhatIsBroken) {
  const auto broken = [](const std::function<void(PlainVocabulary&)>& change) {
    PlainVocabulary v = tiny_vocabulary();
    change(v);
    return error_of([&] { Tokenizer::from_vocabulary(v, "model.gguf"); });
  };
  const auto expect = [&](const std::function<void(PlainVocabulary&)>& change, Status status,
                          const std::string& part) {
    const Error error = broken(change);
    EXPECT_EQ(error.status(), status) << error.message();
    EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
    EXPECT_EQ(error.message().find("model.gguf"), 0u) << error.message();
  };
  expect([](auto& v) { v.model = "t5"; }, Status::unsupported,
         "tokenizer.ggml.model: 't5' is not read by this build; known are gpt2, llama");
  expect([](auto& v) { v.model = "llama", v.merges.clear(); }, Status::format,
         "scores has 0 entries for 268 tokens, and there are no merges");
  expect([](auto& v) { v.pre = "nonsense"; }, Status::unsupported,
         "'nonsense' is not read by this build; known are default, gpt-2");
  expect([](auto& v) { v.tokens.clear(); }, Status::format, "tokens is missing");
  expect([](auto& v) { v.token_types.pop_back(); }, Status::format, "267 entries for 268 tokens");
  expect([](auto& v) { v.tokens[5] = v.tokens[6]; }, Status::format, "occurs twice");
  expect([](auto& v) { v.tokens[5] = "\xFF"; }, Status::format,
         "tokenizer.ggml.tokens[5] is not valid UTF-8");
  expect([](auto& v) { v.merges[0] = "q\xFF z"; }, Status::format,
         "tokenizer.ggml.merges[0] is not valid UTF-8");
  expect([](auto& v) { v.merges[0] = "q z"; }, Status::format, "merges[0]: 'qz' is not in the vocabulary");
  expect([](auto& v) { v.merges[0] = "qz"; }, Status::format, "merges[0]: 'qz' instead of two tokens");
  expect([](auto& v) { v.eos = 268; }, Status::format,
         "eos_token_id: 268 is out of range: the vocabulary has 268 tokens");
  expect([](auto& v) { v.bos = -7; }, Status::format, "bos_token_id: -7");
}

}  // namespace
}  // namespace trl::text
