// trl_dataset_get_profile: numbers out, files written, and what is wrong with its arguments.
#include "host.h"

namespace {

using host::Error;

host::Tokenizer tokenizer() {
  trl_tokenizer* made = nullptr;
  Error error;
  EXPECT_EQ(trl_tokenizer_open(nullptr, host::golden("models/qwen2").c_str(), nullptr, &made, error), TRL_OK)
      << error.message();
  return host::Tokenizer(made);
}

constexpr const char* kRows =
    "{\"question\": \"Who keeps Gannet Light?\", \"answer\": \"Ines Tolland.\"}\n"
    "{\"question\": \"Where?\", \"answer\": \"On the mole, where else would she keep it?\"}\n";
const host::Settings kColumns = {{"dataset_columns", "{question: prompt, answer: completion}"}};

size_t tokens(const trl_tokenizer* tokenizer, const std::string& text) {
  size_t count = 0;
  EXPECT_EQ(trl_tokenizer_encode(tokenizer, text.data(), text.size(), 1, 0, nullptr, 0, &count, nullptr),
            TRL_OK);
  return count;
}

TEST(Profile, CountsTokensAsTheTokenizerDoes) {
  NEED_GOLDEN("models/qwen2/tokenizer.json");
  const auto words = tokenizer();
  const auto rows = host::rows(kRows);
  const auto config = host::config(kColumns);
  const char* json = nullptr;
  const char* text = nullptr;
  Error error;
  ASSERT_EQ(trl_dataset_get_profile(rows.get(), words.get(), config.get(), &json, &text, error), TRL_OK)
      << error.message();
  const host::Json profile = host::parse(json);
  const host::Json described = [&] {
    const char* of = nullptr;
    EXPECT_EQ(trl_tokenizer_describe(words.get(), &of, nullptr), TRL_OK);
    return host::parse(of);
  }();
  const std::string eos = described["eos_token"];
  const size_t first = tokens(words.get(), "Who keeps Gannet Light?Ines Tolland." + eos);
  const size_t second = tokens(words.get(), "Where?On the mole, where else would she keep it?" + eos);
  EXPECT_EQ(profile["rows"], 2);
  EXPECT_EQ(profile["tokens"], first + second);
  EXPECT_EQ(profile["lengths"]["total"]["max"], std::max(first, second));
  EXPECT_EQ(profile["lengths"]["prompt"]["tokens"].get<size_t>() +
                profile["lengths"]["completion"]["tokens"].get<size_t>(),
            first + second);
  EXPECT_NE(std::string(text).find("2 rows"), std::string::npos);
}

TEST(Profile, TheNumberOfThreadsChangesNothing) {
  NEED_GOLDEN("data/datasets/train_lm.jsonl");
  const auto words = tokenizer();
  const auto rows = host::open_rows(host::golden("data/datasets/train_lm.jsonl"));
  std::string first;
  for (const char* threads : {"1", "2"}) {
    const auto config = host::config({{"dataset_num_proc", threads}, {"max_length", "48"}});
    const char* json = nullptr;
    Error error;
    ASSERT_EQ(trl_dataset_get_profile(rows.get(), words.get(), config.get(), &json, nullptr, error), TRL_OK)
        << error.message();
    if (first.empty()) first = json;
    EXPECT_EQ(json, first);
  }
  EXPECT_NE(first.find("\"max_length\": 48"), std::string::npos);
}

TEST(Profile, WritesItsFiles) {
  NEED_GOLDEN("models/qwen2/tokenizer.json");
  const auto words = tokenizer();
  const auto rows = host::rows(kRows);
  const host::Scratch scratch;
  host::Settings settings = kColumns;
  settings.emplace_back("profile.svg", (scratch / "p.svg").string());
  settings.emplace_back("profile.html", (scratch / "p.html").string());
  settings.emplace_back("profile.max_lengths", "[16, 8]");
  Error error;
  ASSERT_EQ(
      trl_dataset_get_profile(rows.get(), words.get(), host::config(settings).get(), nullptr, nullptr, error),
      TRL_OK)
      << error.message();
  EXPECT_TRUE(host::read_file(scratch / "p.svg").starts_with("<svg"));
  EXPECT_TRUE(host::read_file(scratch / "p.html").starts_with("<!DOCTYPE html>"));
}

struct Wrong {
  const char* key;
  const char* value;
  trl_status status;
};

TEST(Profile, WrongOptionsAreNamed) {
  NEED_GOLDEN("models/qwen2/tokenizer.json");
  const auto words = tokenizer();
  const auto rows = host::rows(kRows);
  for (const Wrong& wrong : {Wrong{"profile.max_lengths", "[16, x]", TRL_E_INVALID_CONFIG},
                             Wrong{"profile.max_lengths", "[0]", TRL_E_INVALID_CONFIG},
                             Wrong{"profile.max_lengths", "[4294967296]", TRL_E_INVALID_CONFIG},
                             Wrong{"profile.svg", "/nonexistent/p.svg", TRL_E_NOT_FOUND},
                             Wrong{"profile.html", "/tmp", TRL_E_IO}}) {
    host::Settings settings = kColumns;
    settings.emplace_back(wrong.key, wrong.value);
    Error error;
    const char* json = "before";
    EXPECT_EQ(
        trl_dataset_get_profile(rows.get(), words.get(), host::config(settings).get(), &json, nullptr, error),
        wrong.status)
        << wrong.value;
    EXPECT_EQ(json, nullptr);
    EXPECT_EQ(error.key(), wrong.key) << error.message();
  }
}

TEST(Profile, NullsAndBadRows) {
  NEED_GOLDEN("models/qwen2/tokenizer.json");
  const auto words = tokenizer();
  const auto rows = host::rows("{\"text\": \"a\"}\n{\"text\": 5}\n");
  Error error;
  const char* json = nullptr;
  EXPECT_EQ(trl_dataset_get_profile(nullptr, words.get(), nullptr, &json, nullptr, error),
            TRL_E_INVALID_ARGUMENT);
  EXPECT_TRUE(error.names("dataset")) << error.message();
  EXPECT_EQ(trl_dataset_get_profile(rows.get(), nullptr, nullptr, &json, nullptr, error),
            TRL_E_INVALID_ARGUMENT);
  EXPECT_TRUE(error.names("tokenizer")) << error.message();
  EXPECT_EQ(trl_dataset_get_profile(rows.get(), words.get(), nullptr, &json, nullptr, error), TRL_E_FORMAT);
  EXPECT_TRUE(error.names(":2")) << error.message();
  EXPECT_EQ(trl_dataset_get_profile(rows.get(), words.get(), nullptr, nullptr, nullptr, nullptr),
            TRL_E_FORMAT);
}

}  // namespace
