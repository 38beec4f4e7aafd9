// trl_tokenizer_*: recorded ids, texts and rendered conversations through the C API, and what is refused.
#include <map>
#include <set>
#include <thread>

#include "host.h"

namespace {

using host::Error;
using host::Json;

host::Tokenizer open(const std::string& path, const host::Settings& options = {}) {
  trl_tokenizer* made = nullptr;
  Error error;
  EXPECT_EQ(trl_tokenizer_open(nullptr, path.c_str(), host::config(options).get(), &made, error), TRL_OK)
      << path << ": " << error.message();
  return host::Tokenizer(made);
}

std::vector<int32_t> encode(const trl_tokenizer* tokenizer, const std::string& text, bool special) {
  size_t count = 0;
  Error error;
  EXPECT_EQ(trl_tokenizer_encode(tokenizer, text.data(), text.size(), special, 0, nullptr, 0, &count, error),
            TRL_OK)
      << error.message();
  std::vector<int32_t> ids(count);
  EXPECT_EQ(trl_tokenizer_encode(tokenizer, text.data(), text.size(), special, 0, ids.data(), ids.size(),
                                 &count, error),
            TRL_OK);
  EXPECT_EQ(count, ids.size());
  return ids;
}

std::string decode(const trl_tokenizer* tokenizer, const std::vector<int32_t>& ids, bool skip) {
  size_t size = 0;
  Error error;
  EXPECT_EQ(trl_tokenizer_decode(tokenizer, ids.data(), ids.size(), skip, nullptr, 0, &size, error), TRL_OK)
      << error.message();
  std::string text(size, '\0');
  EXPECT_EQ(
      trl_tokenizer_decode(tokenizer, ids.data(), ids.size(), skip, text.data(), text.size(), &size, error),
      TRL_OK);
  return text;
}

std::string apply(const trl_tokenizer* tokenizer, const Json& conversation, Error& error,
                  trl_status want = TRL_OK) {
  const std::string json = conversation.dump();
  std::string text(1 << 16, '\0');
  size_t size = 0;
  EXPECT_EQ(trl_tokenizer_apply_chat_template(tokenizer, json.data(), json.size(), text.data(), text.size(),
                                              &size, error),
            want)
      << error.message();
  EXPECT_LE(size, text.size());
  text.resize(size);
  return text;
}

TEST(Tokenizer, RecordedIdsAndTexts) {
  NEED_GOLDEN("tokenizers/bpe_gpt2/cases.json");
  int cases = 0;
  for (const std::string name : {"bpe_gpt2", "bpe_qwen2", "bpe_llama3", "spm_style_bpe", "bpe_digits",
                                 "bpe_added", "real_smollm2", "real_qwen3"}) {
    if (name.starts_with("real_") && host::golden("tokenizers/" + name).empty()) continue;
    const auto tokenizer = open(host::golden("tokenizers/" + name));
    const Json recorded = host::golden_json("tokenizers/" + name + "/cases.json");
    for (const Json& c : recorded["cases"]) {
      const auto ids = c["ids"].get<std::vector<int32_t>>();
      const auto special =
          c["ids_with_special"].is_null() ? ids : c["ids_with_special"].get<std::vector<int32_t>>();
      EXPECT_EQ(encode(tokenizer.get(), c["text"], false), ids) << name << ": " << c["text"];
      EXPECT_EQ(encode(tokenizer.get(), c["text"], true), special) << name << ": " << c["text"];
      EXPECT_EQ(decode(tokenizer.get(), ids, false), c["decoded"].get<std::string>()) << name;
      EXPECT_EQ(decode(tokenizer.get(), ids, true), c["decoded_skip_special"].get<std::string>()) << name;
      ++cases;
    }
  }
  EXPECT_GE(cases, 190 + 210 + 203 + 203 + 230 + 230);
}

TEST(Tokenizer, ToolsCallForTheTemplateOfTheirName) {
  NEED_GOLDEN("models/qwen2/tokenizer.json");
  const host::Scratch scratch;
  const std::string model = scratch / "model";
  host::write_file(model + "/tokenizer.json", host::read_file(host::golden("models/qwen2/tokenizer.json")));
  host::write_file(model + "/additional_chat_templates/tool_use.jinja", "tools");
  const Json messages = {{{"role", "user"}, {"content", "x"}}};
  Error error;
  apply(open(model).get(), messages, error, TRL_E_NOT_FOUND);
  EXPECT_TRUE(error.names("'tool_use'")) << error.message();
  host::write_file(model + "/chat_template.jinja", "plain");
  const auto tokenizer = open(model);
  EXPECT_EQ(apply(tokenizer.get(), messages, error), "plain");
  EXPECT_EQ(apply(tokenizer.get(), {{"messages", messages}, {"tools", Json::array()}}, error), "tools");
  const char* described = nullptr;
  ASSERT_EQ(trl_tokenizer_describe(tokenizer.get(), &described, error), TRL_OK);
  EXPECT_EQ(host::parse(described)["chat_template"], (Json{{"default", "plain"}, {"tool_use", "tools"}}));
}

TEST(Tokenizer, RecordedConversations) {
  std::map<std::string, Json> conversations;
  const Json all = host::golden_json("chat_templates/conversations.json");
  for (const Json& c : all["conversations"]) conversations[c["name"]] = c;
  int rendered = 0, refused = 0, directories = 0;
  const std::set<std::string> published = {"llama3", "llama3_training", "qwen2_5", "qwen2_5_training",
                                           "qwen3",  "qwen3_training",  "smollm2"};
  for (const std::string name :
       {"chatml_plain", "chatml_generation", "alternating", "header_turns", "mirrored", "parts", "schema",
        "tagged", "thoughts", "llama3", "llama3_training", "qwen2_5", "qwen2_5_training", "qwen3",
        "qwen3_training", "smollm2"}) {
    const std::string folder = "chat_templates/" + name;
    if (published.contains(name) && host::golden(folder).empty()) continue;
    ++directories;
    const Json recorded = host::golden_json(folder + "/cases.json");
    const auto tokenizer =
        open(host::golden("models/qwen2"),
             {{"chat_template", host::read_file(host::golden(folder + "/template.jinja"))}});
    for (const Json& c : recorded["cases"]) {
      const Json& conversation = conversations.at(c["conversation"]);
      Json request = {{"messages", conversation["messages"]},
                      {"add_generation_prompt", c["add_generation_prompt"]}};
      if (c["tools"].get<bool>()) request["tools"] = conversation["kwargs"]["tools"];
      Json variables = recorded["special_tokens"];
      for (const auto& [key, value] : c["kwargs"].items()) {
        if (key == "continue_final_message") {
          request[key] = value;
        } else {
          variables[key] = value;
        }
      }
      request["chat_template_kwargs"] = variables;
      Error error;
      if (c.contains("error") && !c["error"].is_null()) {
        apply(tokenizer.get(), request, error, TRL_E_FORMAT);
        ++refused;
      } else {
        EXPECT_EQ(apply(tokenizer.get(), request, error), c["rendered"].get<std::string>()) << name;
        ++rendered;
      }
    }
  }
  EXPECT_GE(directories, 9);
  EXPECT_EQ(rendered + refused, 30 * directories);
  EXPECT_GE(refused, 9);
}

TEST(Tokenizer, SmallBuffersAreFilledAndTheWholeSizeIsTold) {
  NEED_GOLDEN("models/qwen2/tokenizer.json");
  const auto tokenizer = open(host::golden("models/qwen2"));
  const auto whole = encode(tokenizer.get(), "The small kernel loads.", false);
  ASSERT_GT(whole.size(), 3u);
  std::vector<int32_t> three(4, -7);
  size_t count = 0;
  ASSERT_EQ(trl_tokenizer_encode(tokenizer.get(), "The small kernel loads.", 23, 0, 0, three.data(), 3,
                                 &count, nullptr),
            TRL_OK);
  EXPECT_EQ(count, whole.size());
  EXPECT_EQ(three, (std::vector<int32_t>{whole[0], whole[1], whole[2], -7}));
  char text[64];
  size_t size = 0;
  ASSERT_EQ(
      trl_tokenizer_decode(tokenizer.get(), whole.data(), whole.size(), 0, text, sizeof text, &size, nullptr),
      TRL_OK);
  EXPECT_STREQ(text, "The small kernel loads.");
  EXPECT_EQ(size, 23u);
}

TEST(Tokenizer, SplitsSpecialTokens) {
  NEED_GOLDEN("models/qwen2/tokenizer.json");
  const auto plain = open(host::golden("models/qwen2"));
  const auto splitting = open(host::golden("models/qwen2"), {{"split_special_tokens", "true"}});
  const auto ids = [](const host::Tokenizer& with, int32_t split) {
    std::vector<int32_t> out(32);
    size_t count = 0;
    EXPECT_EQ(trl_tokenizer_encode(with.get(), "a<|im_end|>b", 12, 0, split, out.data(), out.size(), &count,
                                   nullptr),
              TRL_OK);
    out.resize(std::min(count, out.size()));
    return out;
  };
  const std::vector<int32_t> found = {64, 475, 65}, split = {64, 27, 91, 72, 76, 62, 258, 67, 91, 29, 65};
  EXPECT_EQ(ids(plain, -1), found);
  EXPECT_EQ(ids(plain, 0), found);
  EXPECT_EQ(ids(plain, 1), split);
  EXPECT_EQ(ids(splitting, -1), split);
  EXPECT_EQ(ids(splitting, 0), found);
  EXPECT_EQ(ids(splitting, 1), split);
}

TEST(Tokenizer, RunsConcurrently) {
  NEED_GOLDEN("models/qwen2/tokenizer.json");
  const auto tokenizer = open(host::golden("models/qwen2"));
  const auto want = encode(tokenizer.get(), "The small kernel loads.", false);
  const Json conversation = Json::array({{{"role", "user"}, {"content", "Hello"}}});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        ASSERT_EQ(encode(tokenizer.get(), "The small kernel loads.", false), want);
        ASSERT_EQ(decode(tokenizer.get(), want, false), "The small kernel loads.");
        Error error;
        ASSERT_NE(apply(tokenizer.get(), conversation, error).find("Hello"), std::string::npos);
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(Tokenizer, DescribesItself) {
  NEED_GOLDEN("models/qwen2/tokenizer.json");
  const auto tokenizer = open(host::golden("models/qwen2"));
  const char* json = nullptr;
  ASSERT_EQ(trl_tokenizer_describe(tokenizer.get(), &json, nullptr), TRL_OK);
  const Json about = host::parse(json);
  EXPECT_EQ(about["vocab_size"], 480);
  EXPECT_EQ(about["eos_token"], "<|im_end|>");
  EXPECT_EQ(about["pad_token"], "<|endoftext|>");
  EXPECT_EQ(encode(tokenizer.get(), "<|im_end|>", false),
            std::vector<int32_t>{about["eos_token_id"].get<int32_t>()});
  const auto changed = open(host::golden("models/qwen2"), {{"eos_token", "<|endoftext|>"}});
  ASSERT_EQ(trl_tokenizer_describe(changed.get(), &json, nullptr), TRL_OK);
  EXPECT_EQ(host::parse(json)["eos_token"], "<|endoftext|>");
}

TEST(Tokenizer, PiecesAreThoseOfTheVocabulary) {
  NEED_GOLDEN("models/qwen2/tokenizer.json");
  const auto tokenizer = open(host::golden("models/qwen2"));
  Error error;
  const auto piece = [&](int32_t id) {
    size_t size = 0;
    EXPECT_EQ(trl_tokenizer_get_piece(tokenizer.get(), id, nullptr, 0, &size, error), TRL_OK);
    std::string text(size, '\0');
    EXPECT_EQ(trl_tokenizer_get_piece(tokenizer.get(), id, text.data(), text.size(), &size, error), TRL_OK);
    return text;
  };
  std::string pieces;
  for (const int32_t id : encode(tokenizer.get(), "it is<|im_end|>", false)) pieces += piece(id);
  EXPECT_EQ(pieces, "it\xC4\xA0is<|im_end|>");
  size_t size = 7;
  for (const int32_t id : {-1, 480, 1 << 30}) {
    EXPECT_EQ(trl_tokenizer_get_piece(tokenizer.get(), id, nullptr, 0, &size, error), TRL_E_INVALID_ARGUMENT);
    EXPECT_TRUE(error.names(std::to_string(id) + " is outside the vocabulary of 480")) << error.message();
    EXPECT_EQ(size, 0u);
  }
}

TEST(Tokenizer, Refusals) {
  NEED_GOLDEN("models/qwen2/tokenizer.json");
  const auto tokenizer = open(host::golden("models/qwen2"));
  Error error;
  size_t size = 7;
  EXPECT_EQ(trl_tokenizer_encode(tokenizer.get(), "a\xff", 2, 0, 0, nullptr, 0, &size, error), TRL_E_FORMAT);
  EXPECT_EQ(size, 0u);
  for (const int32_t id : {-1, 480, 1 << 30}) {
    EXPECT_EQ(trl_tokenizer_decode(tokenizer.get(), &id, 1, 0, nullptr, 0, &size, error),
              TRL_E_INVALID_ARGUMENT);
    EXPECT_TRUE(error.names(std::to_string(id))) << error.message();
  }
  EXPECT_EQ(trl_tokenizer_decode(tokenizer.get(), nullptr, 2, 0, nullptr, 0, &size, error),
            TRL_E_INVALID_ARGUMENT);
  const int32_t known = 5;
  EXPECT_EQ(trl_tokenizer_decode(tokenizer.get(), &known, SIZE_MAX, 0, nullptr, 0, &size, error),
            TRL_E_INVALID_ARGUMENT);
  EXPECT_TRUE(error.names("ids: a count of " + std::to_string(SIZE_MAX))) << error.message();
  for (const int32_t split : {0, 1}) {
    EXPECT_EQ(trl_tokenizer_encode(tokenizer.get(), "a", SIZE_MAX, 0, split, nullptr, 0, &size, error),
              TRL_E_INVALID_ARGUMENT);
    EXPECT_TRUE(error.names("text: a size of " + std::to_string(SIZE_MAX))) << error.message();
  }
  EXPECT_EQ(trl_tokenizer_encode(tokenizer.get(), "a", 1, 0, 0, nullptr, 5, &size, error),
            TRL_E_INVALID_ARGUMENT);
  for (const Json& bad : {Json(3), Json({{"messages", 3}}), Json({{"message", Json::array()}}),
                          Json({{"messages", Json::array()}, {"add_generation_prompt", "yes"}})}) {
    apply(tokenizer.get(), bad, error, TRL_E_FORMAT);
  }
  const std::string deep =
      "{\"messages\": [], \"chat_template_kwargs\": {\"a\": " + std::string(200'000, '[');
  EXPECT_EQ(
      trl_tokenizer_apply_chat_template(tokenizer.get(), deep.data(), deep.size(), nullptr, 0, &size, error),
      TRL_E_FORMAT);
  EXPECT_NE(error.message().find("nested deeper than 128 levels"), std::string::npos) << error.message();
  EXPECT_EQ(trl_tokenizer_apply_chat_template(tokenizer.get(), "[", 1, nullptr, 0, &size, error),
            TRL_E_FORMAT);
  trl_tokenizer* none = nullptr;
  EXPECT_EQ(trl_tokenizer_open(nullptr, "/nonexistent", nullptr, &none, error), TRL_E_NOT_FOUND);
  const host::Scratch scratch;
  host::write_file(scratch / "broken" / "tokenizer.json", "{\"model\": ");
  EXPECT_EQ(trl_tokenizer_open(nullptr, (scratch / "broken").c_str(), nullptr, &none, error), TRL_E_FORMAT);
  EXPECT_TRUE(error.names("tokenizer.json")) << error.message();
  EXPECT_EQ(trl_tokenizer_open(nullptr, host::golden("models/qwen2").c_str(),
                               host::config({{"eos_token", "<nope>"}}).get(), &none, error),
            TRL_E_INVALID_CONFIG);
  EXPECT_EQ(none, nullptr);
}

}  // namespace
