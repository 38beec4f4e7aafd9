// The files around tokenizer.json: special tokens, templates, overrides, and what is wrong with broken ones.
#include <gtest/gtest.h>

#include "text/tokenizer_tiny.h"

namespace trl::text {
namespace {
using namespace tiny;

Json chat_json() {
  Json json = tiny_json();
  json["added_tokens"] = {added(265, "<end>", "special"), added(266, "<pad>", "special"),
                          added(267, "<say>")};
  return json;
}

std::string file(const Tokenizer& tokenizer, const std::string& name) {
  for (const auto& [given, bytes] : tokenizer.files()) {
    if (given == name) return bytes;
  }
  return "(none)";
}

TEST(TokenizerFiles, ReadsSpecialTokensInEitherForm) {
  const auto tokenizer = open(chat_json(), {{"eos_token", "<end>"},
                                            {"pad_token", {{"content", "<pad>"}, {"lstrip", false}}},
                                            {"bos_token", nullptr}});
  EXPECT_EQ(tokenizer->special().eos, "<end>");
  EXPECT_EQ(tokenizer->special().pad, "<pad>");
  EXPECT_EQ(tokenizer->special().bos, std::nullopt);
  EXPECT_EQ(tokenizer->special().unk, std::nullopt);
  EXPECT_EQ(tokenizer->special_id(tokenizer->special().eos), 265);
}

// What transformers' special_tokens_map holds for such a file.
TEST(TokenizerFiles, GivesAllNamedTokensToTemplates) {
  const auto tokenizer = open(chat_json(), {{"eos_token", "<end>"},
                                            {"cls_token", "<say>"},
                                            {"sep_token", {{"content", "<end>"}}},
                                            {"mask_token", "he"},
                                            {"image_token", "<pad>"},
                                            {"audio_token", nullptr},
                                            {"add_bos_token", true},
                                            {"extra_special_tokens", {{"boi", "<say>"}}}});
  const std::map<std::string, std::string> expected = {{"eos_token", "<end>"},   {"cls_token", "<say>"},
                                                       {"sep_token", "<end>"},   {"mask_token", "he"},
                                                       {"image_token", "<pad>"}, {"boi", "<say>"}};
  EXPECT_EQ(tokenizer->special_tokens_map(), expected);
}

TEST(TokenizerFiles, MakesNamedTokensSpecialAndAddsMissingOnes) {
  const auto tokenizer =
      open(chat_json(), {{"pad_token", "<new>"}, {"eos_token", "<say>"}, {"bos_token", "he"}});
  EXPECT_EQ(tokenizer->encode("<say>the<new>", false), (Ids{267, 116, 256, 268}));
  EXPECT_EQ(tokenizer->decode(Ids{267, 116, 256, 268}, true), "t");
  EXPECT_EQ(tokenizer->vocab_size(), 269);
}

TEST(TokenizerFiles, LetsTheMapWinOnlyWithoutAnAddedTokensDecoder) {
  Folder folder;
  folder.put("tokenizer.json", chat_json().dump());
  folder.put("special_tokens_map.json", R"({"eos_token": "<pad>"})");
  folder.put("tokenizer_config.json", R"({"eos_token": "<end>"})");
  EXPECT_EQ(Tokenizer::from_files(folder.path())->special().eos, "<pad>");
  folder.put("tokenizer_config.json", R"({"eos_token": "<end>", "added_tokens_decoder": {}})");
  EXPECT_EQ(Tokenizer::from_files(folder.path())->special().eos, "<end>");
}

// The expected values are AutoTokenizer's (transformers 5).
TEST(TokenizerFiles, ReadsAddedTokensOfTheOldFile) {
  Folder folder;
  folder.put("tokenizer.json", chat_json().dump()).put("tokenizer_config.json", R"({"eos_token": "<end>"})");
  const std::string old = R"({"<two>": 269, "<one>": 268, "<end>": 265, "<not>": 266, "he": 256})";
  folder.put("added_tokens.json", old);
  const auto tokenizer = Tokenizer::from_files(folder.path());
  EXPECT_EQ(tokenizer->encode("<one><two><end>he", false), (Ids{268, 269, 265, 256}));
  EXPECT_EQ(tokenizer->token_to_id("<not>"), std::nullopt);
  EXPECT_EQ(tokenizer->decode(Ids{268, 265}, true), "<one>");
  EXPECT_EQ(file(*tokenizer, "added_tokens.json"), old);
  folder.put("tokenizer_config.json", R"({"added_tokens_decoder": {}})");
  EXPECT_EQ(Tokenizer::from_files(folder.path())->token_to_id("<one>"), std::nullopt);
  folder.put("tokenizer_config.json", "{}").put("added_tokens.json", R"({"<one>": "x"})");
  EXPECT_NE(error_of([&] { Tokenizer::from_files(folder.path()); })
                .message()
                .find("added_tokens.json: '<one>': a string"),
            std::string::npos);
}

using Templates = std::map<std::string, std::string>;

TEST(TokenizerFiles, FindsTheTemplates) {
  const Json json = chat_json();
  EXPECT_EQ(open(json)->chat_templates(), Templates{});
  EXPECT_EQ(open(json, {{"chat_template", "{{ a }}"}})->chat_templates(),
            (Templates{{"default", "{{ a }}"}}));
  const Json named = {
      {"chat_template",
       {{{"name", "tool_use"}, {"template", "t"}}, {{"name", "default"}, {"template", "d"}}}}};
  const Templates both = {{"default", "d"}, {"tool_use", "t"}};
  EXPECT_EQ(open(json, named)->chat_templates(), both);
  EXPECT_EQ(open(json, {{"chat_template", both}})->chat_templates(), both);
  Folder folder;
  folder.put("tokenizer.json", json.dump())
      .put("tokenizer_config.json", named.dump())
      .put("chat_template.jinja", "file");
  EXPECT_EQ(Tokenizer::from_files(folder.path())->chat_templates(), (Templates{{"default", "file"}}));
  folder.put("additional_chat_templates/rag.jinja", "r").put("additional_chat_templates/note.txt", "");
  const auto more = Tokenizer::from_files(folder.path());
  EXPECT_EQ(more->chat_templates(), (Templates{{"default", "file"}, {"rag", "r"}}));
  EXPECT_EQ(file(*more, "additional_chat_templates/rag.jinja"), "r");
  const auto other = more->with({.chat_template = "own"});
  EXPECT_EQ(other->chat_templates(), (Templates{{"default", "own"}}));
  EXPECT_EQ(file(*other, "chat_template.jinja"), "own");
  EXPECT_EQ(file(*other, "additional_chat_templates/rag.jinja"), "(none)");
  folder.put("additional_chat_templates/rag.jinja", "\xFF");
  EXPECT_NE(
      error_of([&] { Tokenizer::from_files(folder.path()); }).message().find("rag.jinja: invalid UTF-8"),
      std::string::npos);
}

TEST(TokenizerFiles, KeepsFilesAsTheyWere) {
  Folder folder;
  const std::string json = chat_json().dump(4) + "\n\n";
  folder.put("tokenizer.json", json).put("tokenizer_config.json", "{ \"eos_token\":  \"<end>\" }");
  const auto tokenizer = Tokenizer::from_files(folder.path());
  EXPECT_EQ(file(*tokenizer, "tokenizer.json"), json);
  EXPECT_EQ(file(*tokenizer, "tokenizer_config.json"), "{ \"eos_token\":  \"<end>\" }");
  EXPECT_EQ(tokenizer->files().size(), 2u);
}

TEST(TokenizerFiles, WritesOverrides) {
  const auto first =
      open(chat_json(), {{"model_max_length", 7}, {"eos_token", "<end>"}, {"chat_template", "old"}});
  const auto second = first->with({.eos = "<pad>", .pad = "<end>", .chat_template = "new"});
  EXPECT_EQ(first->special().eos, "<end>");
  EXPECT_EQ(first->chat_templates().at("default"), "old");
  EXPECT_EQ(second->special().eos, "<pad>");
  EXPECT_EQ(second->special().pad, "<end>");
  EXPECT_EQ(second->chat_templates().at("default"), "new");
  Folder folder;
  for (const auto& [name, bytes] : second->files()) folder.put(name, bytes);
  const auto third = Tokenizer::from_files(folder.path());
  EXPECT_EQ(third->special().eos, "<pad>");
  EXPECT_EQ(third->special().pad, "<end>");
  EXPECT_EQ(third->chat_templates().at("default"), "new");
  const Json config = base::parse_json(file(*second, "tokenizer_config.json"), "tokenizer_config.json");
  EXPECT_EQ(config, (Json{{"model_max_length", 7}, {"eos_token", "<pad>"}, {"pad_token", "<end>"}}));
  EXPECT_EQ(file(*first->with({}), "tokenizer_config.json"), file(*first, "tokenizer_config.json"));
}

TEST(TokenizerFiles, RefusesOverridesOutsideTheVocabulary) {
  const auto tokenizer = open(chat_json());
  const Error eos = error_of([&] { tokenizer->with({.eos = "<ende>"}); });
  EXPECT_EQ(eos.status(), Status::invalid_config);
  EXPECT_EQ(eos.key(), "eos_token");
  EXPECT_NE(eos.message().find("'<ende>' is not in the vocabulary"), std::string::npos) << eos.message();
  EXPECT_NE(eos.message().find("'<end>' is"), std::string::npos) << eos.message();
  EXPECT_EQ(error_of([&] { tokenizer->with({.pad = "[PAD]"}); }).key(), "pad_token");
}

TEST(TokenizerFiles, SaysWhatIsMissing) {
  Folder folder;
  EXPECT_EQ(error_of([&] { Tokenizer::from_files(folder.path() + "/no"); }).status(), Status::not_found);
  const Error none = error_of([&] { Tokenizer::from_files(folder.path()); });
  EXPECT_EQ(none.status(), Status::not_found);
  EXPECT_EQ(none.message(),
            folder.path() + ": is not a model directory: it has neither config.json nor tokenizer.json");
  folder.put("config.json", "{}");
  EXPECT_EQ(error_of([&] { Tokenizer::from_files(folder.path()); }).message(),
            folder.path() +
                "/tokenizer.json: no such file: a tokenizer is read from tokenizer.json or "
                "tokenizer.model");
  folder.put("tokenizer.model", "x");
  const Error model = error_of([&] { Tokenizer::from_files(folder.path()); });
  const bool read = base::file_exists(TRL_BINARY_DIR "/lib/trl/libtrl_sentencepiece.so");
  EXPECT_EQ(model.status(), read ? Status::format : Status::unsupported);
  EXPECT_NE(model.message().find("SentencePiece"), std::string::npos);
}

TEST(TokenizerFiles, KnowsAGitLfsPointer) {
  Folder folder;
  folder.put("tokenizer.json", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 7031645\n");
  const Error error = error_of([&] { Tokenizer::from_files(folder.path()); });
  EXPECT_EQ(error.status(), Status::format);
  EXPECT_EQ(error.message(), folder.path() +
                                 "/tokenizer.json: it is a Git LFS pointer, not the file itself: fetch it "
                                 "with git lfs pull");
}

struct Broken {
  const char* what;
  std::string text;
  Status status;
  std::string message;  // a part of it
};

Json changed(const std::function<void(Json&)>& change) {
  Json json = tiny_json();
  change(json);
  return json;
}

TEST(TokenizerFiles, NamesWhatIsBroken) {
  const auto json = [](const std::function<void(Json&)>& change) { return changed(change).dump(); };
  const Json deep_sequence = [] {
    Json step = byte_level();
    for (int i = 0; i < 25; ++i) step = {{"type", "Sequence"}, {"pretokenizers", {step}}};
    return step;
  }();
  const std::vector<Broken> cases = {
      {"no JSON", "{\n \"model\": {,}}", Status::format, "tokenizer.json:2:12: not valid JSON"},
      {"cut off", tiny_json().dump().substr(0, 900), Status::format, "not valid JSON"},
      {"a list", "[1]", Status::format, "a list instead of an object"},
      {"empty", "", Status::format, "tokenizer.json:1:1: not valid JSON"},
      {"deep", std::string(100000, '['), Status::format, "nested deeper than 128 levels"},
      {"deep objects",
       [] {
         std::string s;
         for (int i = 0; i < 100000; ++i) s += "{\"a\":";
         return s;
       }(),
       Status::format, "nested deeper than 128 levels"},
      {"no model", "{}", Status::format, "'model' is missing"},
      {"no vocabulary", R"({"model": {"type": "BPE", "merges": []}})", Status::format,
       "vocabulary is missing"},
      {"WordBag", R"({"model": {"type": "WordBag", "vocab": {"a": 0}}})", Status::unsupported,
       "the model 'WordBag' is not read by this build; known are BPE, Unigram, WordLevel, WordPiece"},
      {"an id that is text", json([](Json& j) { j["model"]["vocab"]["he"] = "x"; }), Status::format,
       "'he' has a string"},
      {"an id that is a list", json([](Json& j) { j["model"]["vocab"]["he"] = {1}; }), Status::format,
       "'he' has a list"},
      {"a huge id", json([](Json& j) { j["model"]["vocab"]["he"] = 1e18; }), Status::format,
       "'he' has a number"},
      {"a huge integer id", json([](Json& j) { j["model"]["vocab"]["he"] = 18446744073709551615u; }),
       Status::format, "'he' has the id"},
      {"an id above the limit", json([](Json& j) { j["model"]["vocab"]["he"] = 1 << 22; }), Status::format,
       "0 to 4194303 are read"},
      {"a negative id", json([](Json& j) { j["model"]["vocab"]["he"] = -1; }), Status::format,
       "'he' has the id -1"},
      {"an id twice", json([](Json& j) { j["model"]["vocab"]["he"] = 3; }), Status::format,
       "'he' with the id 3"},
      {"a token twice", R"({"model": {"vocab": {"a": 0, "a": 1}, "merges": []}})", Status::format,
       "'a' with the id 1"},
      {"no merges", json([](Json& j) { j["model"].erase("merges"); }), Status::format,
       "model: 'merges' is missing"},
      {"null merges", json([](Json& j) { j["model"]["merges"] = nullptr; }), Status::format,
       "model: 'merges' is missing"},
      {"merges that are a number", json([](Json& j) { j["model"]["merges"] = 5; }), Status::format,
       "model.merges: a number instead of a list"},
      {"merges that are text", json([](Json& j) { j["model"]["merges"] = "a b"; }), Status::format,
       "model.merges: a string instead of a list"},
      {"an unknown merge", json([](Json& j) { j["model"]["merges"].push_back("x y"); }), Status::format,
       "model.merges[9]: 'xy' is not in the vocabulary"},
      {"a merge of three", json([](Json& j) { j["model"]["merges"].push_back("a b c"); }), Status::format,
       "model.merges[9]: 'a b c'"},
      {"a merge list of three", json([](Json& j) {
         j["model"]["merges"] = {{"a", "b", "c"}};
       }),
       Status::format, "model.merges[0]"},
      {"a merge list of one", json([](Json& j) { j["model"]["merges"] = Json::array({Json::array({"a"})}); }),
       Status::format, "model.merges[0]: a list of 1"},
      {"a merge number", json([](Json& j) { j["model"]["merges"].push_back(3); }), Status::format,
       "model.merges[9]: a number"},
      {"dropout", json([](Json& j) { j["model"]["dropout"] = 0.1; }), Status::unsupported,
       "model.dropout: 0.1"},
      {"suffix and bytes", json([](Json& j) {
         j["model"]["end_of_word_suffix"] = "</w>";
         j["model"]["byte_fallback"] = true;
       }),
       Status::unsupported,
       "model.byte_fallback: true beside continuing_subword_prefix '' and end_of_word_suffix '</w>'"},
      {"a prefix of bytes", json([](Json& j) { j["model"]["continuing_subword_prefix"] = "\xC3\xA9"; }),
       Status::unsupported,
       "model.continuing_subword_prefix: '\xC3\xA9' is not read; only ASCII characters are"},
      {"a merge without the prefix",
       json([](Json& j) { j["model"]["continuing_subword_prefix"] = "########"; }), Status::format,
       "without the prefix '########'"},
      {"words without unk", R"({"model": {"type": "WordLevel", "vocab": {"a": 0}}})", Status::format,
       "model: 'unk_token' is missing"},
      {"unknown unk", json([](Json& j) { j["model"]["unk_token"] = "<unk>"; }), Status::format,
       "unk_token '<unk>'"},
      {"normalizer", json([](Json& j) {
         j["normalizer"] = {{"type", "Titlecase"}};
       }),
       Status::unsupported, "the normalizer 'Titlecase' is not read by this build; known are BertNormalizer"},
      {"pre-tokenizer", json([](Json& j) {
         j["pre_tokenizer"] = {{"type", "UnicodeScripts"}};
       }),
       Status::unsupported, "'UnicodeScripts' is not read by this build; known are BertPreTokenizer"},
      {"post-processor", json([](Json& j) {
         j["post_processor"] = {{"type", "PairProcessing"}};
       }),
       Status::unsupported, "'PairProcessing' is not read by this build; known are BertProcessing"},
      {"decoder", json([](Json& j) {
         j["decoder"] = {{"type", "Morse"}};
       }),
       Status::unsupported, "the decoder 'Morse'"},
      {"type of a type", json([](Json& j) {
         j["decoder"] = {{"type", 3}};
       }),
       Status::format, "decoder.type: a number instead of a string"},
      {"nested sequences", json([&](Json& j) { j["pre_tokenizer"] = deep_sequence; }), Status::format,
       "nested"},
      {"a bad pattern", json([](Json& j) {
         j["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"Regex", "(a"}}}, {"behavior", "Isolated"}};
       }),
       Status::format, "pre_tokenizer.pattern.Regex: the pattern '(a' is not valid"},
      {"a behavior", json([](Json& j) {
         j["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"Regex", "a"}}}, {"behavior", "Split"}};
       }),
       Status::format, "'Split' is not one of"},
      {"an added id", json([](Json& j) { j["added_tokens"] = {added(300, "<x>")}; }), Status::format,
       "'<x>' has the id 300, but vocabulary and order give it 265"},
      {"a huge added id", json([](Json& j) {
         j["added_tokens"] = {added(0, "<x>")};
         j["added_tokens"][0]["id"] = 99999999999;
       }),
       Status::format, "added_tokens[0].id: 99999999999 is out of range"},
      {"a long added token", json([](Json& j) { j["added_tokens"] = {added(265, std::string(1025, 'x'))}; }),
       Status::format, "added_tokens[0].content: 1025 bytes: at most 1024 are read"},
      {"added flags", json([](Json& j) {
         j["added_tokens"] = {added(265, "<x>")};
         j["added_tokens"][0]["lstrip"] = 1;
       }),
       Status::format, "added_tokens[0].lstrip: a number instead of true or false"},
      {"a template id", json([](Json& j) {
         j["post_processor"] = {{"type", "TemplateProcessing"},
                                {"single", {{{"SpecialToken", {{"id", "B"}}}}}},
                                {"special_tokens", {{"B", {{"ids", {265}}}}}}};
       }),
       Status::format, "special_tokens.B.ids[0]: 265 is out of range: 0 to 264"},
  };
  for (const Broken& c : cases) {
    Folder folder;
    folder.put("tokenizer.json", c.text);
    const Error error = error_of([&] { Tokenizer::from_files(folder.path()); });
    EXPECT_EQ(error.status(), c.status) << c.what << ": " << error.message();
    EXPECT_NE(error.message().find(c.message), std::string::npos) << c.what << ": " << error.message();
    EXPECT_NE(error.message().find(folder.path() + "/tokenizer.json"), std::string::npos)
        << c.what << ": " << error.message();
    EXPECT_EQ(error.message().find('\n'), std::string::npos) << c.what;
  }
}

// Forty steps that each write a letter twice would make a tebibyte of one letter.
TEST(TokenizerFiles, EndsStepsThatMakeTooMuchText) {
  const auto steps = [](const char* list, size_t count, const Json& content) {
    Json all = Json::array();
    for (size_t i = 0; i < count; ++i)
      all.push_back({{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", content}});
    return Json{{"type", "Sequence"}, {list, all}};
  };
  const auto expect = [](const Error& error, const char* part) {
    EXPECT_EQ(error.status(), Status::unsupported);
    EXPECT_NE(error.message().find(part), std::string::npos) << error.message();
  };
  Json json = tiny_json();
  for (const auto& [count, content] :
       {std::pair<size_t, std::string>{40, "aa"}, {1, std::string(2 << 20, 'a')}}) {
    json["normalizer"] = steps("normalizers", count, content);
    json["decoder"] = nullptr;
    const auto writes = open(json);
    expect(error_of([&] { writes->encode("a", false); }), "the steps of the normalizer make more than");
    json["normalizer"] = nullptr;
    json["decoder"] = steps("decoders", count, content);
    const auto reads = open(json);
    expect(error_of([&] { reads->decode(Ids{'a'}, false); }), "the steps of the decoder make more than");
  }
}

TEST(TokenizerFiles, NamesWhatIsBrokenInTheConfiguration) {
  const auto message = [](const std::string& config) {
    Folder folder;
    folder.put("tokenizer.json", tiny_json().dump()).put("tokenizer_config.json", config);
    return error_of([&] { Tokenizer::from_files(folder.path()); }).message();
  };
  EXPECT_NE(message("{").find("tokenizer_config.json:1:"), std::string::npos);
  EXPECT_NE(
      message(R"({"eos_token": 3})").find("tokenizer_config.json.eos_token: a number instead of a string"),
      std::string::npos);
  Folder broken;
  broken.put("tokenizer.json", tiny_json().dump()).put("chat_template.jinja", "a\xFF");
  EXPECT_EQ(error_of([&] { Tokenizer::from_files(broken.path()); }).message(),
            broken.path() + "/chat_template.jinja: invalid UTF-8 at byte 1");
  EXPECT_NE(message(R"({"chat_template": 3})").find("chat_template: a number instead of a list"),
            std::string::npos);
  EXPECT_NE(message(R"({"added_tokens_decoder": {"x": {}}})").find("'x' is not a token id"),
            std::string::npos);
  EXPECT_NE(
      message(R"({"added_tokens_decoder": {"3": {}}})").find("added_tokens_decoder.3: 'content' is missing"),
      std::string::npos);
}

// Every prefix of a file, and every byte of it changed, is either read or refused: never anything else.
TEST(TokenizerFiles, RefusesDamagedFiles) {
  Json json = changed([](Json& j) {
    j["model"]["vocab"] = {{"a", 0}, {"b", 1}, {"ab", 2}};
    j["model"]["merges"] = {"a b"};
    j["added_tokens"] = {added(3, "<x>")};
  });
  const std::string text = json.dump();
  size_t refused = 0;
  for (size_t i = 0; i < text.size(); i += 3) {
    for (const char byte : {'\0', '"', '{', ']', '9', '\xFF'}) {
      std::string damaged = text;
      damaged[i] = byte;
      Folder folder;
      folder.put("tokenizer.json", damaged);
      refused += error_of([&] { Tokenizer::from_files(folder.path())->encode("ab<x>", true); }).status() !=
                 Status::ok;
    }
    Folder folder;
    folder.put("tokenizer.json", text.substr(0, i));
    EXPECT_EQ(error_of([&] { Tokenizer::from_files(folder.path()); }).status(), Status::format) << i;
  }
  EXPECT_GT(refused, text.size());
}

}  // namespace
}  // namespace trl::text
