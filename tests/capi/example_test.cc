// trl_dataset_get_example: a row's tokens, labels and texts, and what is wrong with its arguments.
#include "host.h"

namespace example_test {
namespace {

using host::Error;

host::Tokenizer tokenizer() {
  trl_tokenizer* made = nullptr;
  EXPECT_EQ(trl_tokenizer_open(nullptr, host::golden("models/qwen2").c_str(), nullptr, &made, nullptr),
            TRL_OK);
  return host::Tokenizer(made);
}

constexpr const char* kRows =
    "{\"prompt\": \"Who keeps Gannet Light?\", \"completion\": \" Ines Tolland \\u00e9.\"}\n"
    "{\"prompt\": \"Where?\", \"completion\": \" Here.\"}\n";

host::Json example(const host::Settings& settings, int64_t row) {
  const auto words = tokenizer();
  const auto rows = host::rows(kRows);
  Error error;
  const char* json = nullptr;
  EXPECT_EQ(trl_dataset_get_example(rows.get(), words.get(), host::config(settings).get(), row, &json, error),
            TRL_OK)
      << error.message();
  return json == nullptr ? host::Json() : host::parse(json);
}

// The texts of the tokens for which the label is one, or is none.
std::string text_of(const host::Json& example, bool trained) {
  std::string text;
  for (size_t i = 0; i < example["input_ids"].size(); ++i) {
    const int32_t label = example["labels"][i];
    if (label >= 0) {
      EXPECT_EQ(label, example["input_ids"][i].get<int32_t>());
    }
    if ((label >= 0) == trained) text += example["texts"][i].get<std::string>();
  }
  return text;
}

TEST(Example, ShowsWhatIsTrainedOn) {
  NEED_GOLDEN("models/qwen2/tokenizer.json");
  const host::Json first = example({}, 0);
  EXPECT_EQ(first["row"], 0);
  EXPECT_EQ(text_of(first, false), "Who keeps Gannet Light?");
  EXPECT_EQ(text_of(first, true).substr(0, 17), " Ines Tolland \xC3\xA9.");
  std::string pieces;
  for (const auto& piece : first["pieces"]) pieces += piece.get<std::string>();
  EXPECT_EQ(pieces.substr(0, 26), "Who\xC4\xA0keeps\xC4\xA0Gannet\xC4\xA0Light?");
  EXPECT_EQ(text_of(example({}, 1), false), "Where?");
  EXPECT_EQ(text_of(example({{"completion_only_loss", "false"}}, 0), false), "");
  EXPECT_EQ(example({{"max_length", "3"}}, 0)["input_ids"].size(), 3u);
}

TEST(Example, NamesWhatIsWrong) {
  NEED_GOLDEN("models/qwen2/tokenizer.json");
  const auto words = tokenizer();
  const auto rows = host::rows(kRows);
  for (const int64_t row : {int64_t{-1}, int64_t{2}, INT64_MAX}) {
    Error error;
    const char* json = "before";
    EXPECT_EQ(trl_dataset_get_example(rows.get(), words.get(), nullptr, row, &json, error),
              TRL_E_INVALID_ARGUMENT);
    EXPECT_TRUE(error.names("row: " + std::to_string(row))) << error.message();
    EXPECT_EQ(json, nullptr);
  }
  Error error;
  EXPECT_EQ(trl_dataset_get_example(rows.get(), nullptr, nullptr, 0, nullptr, error), TRL_E_INVALID_ARGUMENT);
  EXPECT_TRUE(error.names("tokenizer")) << error.message();
}

}  // namespace
}  // namespace example_test
