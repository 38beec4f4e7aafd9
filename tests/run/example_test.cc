// trl_dataset_get_example: a row's tokens, labels and texts, and what is wrong with its arguments.
#include <cstring>
#include <set>

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

host::Json batch(const host::Settings& settings, int64_t number, const char* lines = kRows) {
  const auto words = tokenizer();
  const auto rows = host::rows(lines);
  Error error;
  host::Json batch;
  const auto keep = [](void* any, const char* json, size_t size) {
    *static_cast<host::Json*>(any) = host::parse({json, size});
    return int32_t{0};
  };
  EXPECT_EQ(trl_dataset_visit_batches(rows.get(), words.get(), host::config(settings).get(), number, 1, keep,
                                      &batch, error),
            TRL_OK)
      << error.message();
  return batch;
}

// Each row once, with the tokens and labels that trl_dataset_get_example has.
TEST(Batch, HasTheRowsOfTheRun) {
  NEED_GOLDEN("models/qwen2/tokenizer.json");
  std::set<int64_t> seen;
  for (const int64_t number : {0, 1}) {
    const host::Json one = batch({{"per_device_train_batch_size", "1"}}, number);
    EXPECT_EQ(one["batches_per_epoch"], 2);
    EXPECT_EQ(one["rows"], 2);
    ASSERT_EQ(one["sequences"].size(), 1u);
    const int64_t row = one["row_ids"][0];
    seen.insert(row);
    const host::Json same = example({}, row);
    EXPECT_EQ(one["sequences"][0]["input_ids"], same["input_ids"]);
    EXPECT_EQ(one["sequences"][0]["labels"], same["labels"]);
    EXPECT_EQ(one["sequences"][0]["texts"], same["texts"]);
  }
  EXPECT_EQ(seen.size(), 2u);
  const host::Json packed = batch({{"packing", "true"}, {"per_device_train_batch_size", "1"}}, 0);
  EXPECT_EQ(packed["rows"], 1);
  EXPECT_EQ(packed["sequences"].size(), 2u);
}

// One call sees the batches that as many calls of one batch see.
TEST(Batch, AreVisitedInOrder) {
  NEED_GOLDEN("models/qwen2/tokenizer.json");
  const auto words = tokenizer();
  const auto rows = host::rows(kRows);
  struct Seen {
    std::vector<host::Json> batches;
    int32_t answer = 0;
  };
  const auto see = [](void* any, const char* json, size_t size) {
    auto& seen = *static_cast<Seen*>(any);
    EXPECT_EQ(strlen(json), size);
    seen.batches.push_back(host::parse(json));
    return seen.answer;
  };
  const auto visit = [&](int64_t first, int64_t count, Seen& seen, trl_batch_fn with) {
    Error error;
    const auto config = host::config({{"per_device_train_batch_size", "1"}, {"max_length", "20"}});
    return trl_dataset_visit_batches(rows.get(), words.get(), config.get(), first, count, with, &seen, error);
  };
  Seen all, second, one, none, stopped{{}, 1}, failed{{}, -7};
  EXPECT_EQ(visit(0, INT64_MAX, all, see), TRL_OK);
  ASSERT_EQ(all.batches.size(), 2u);
  for (const int64_t number : {0, 1}) {
    EXPECT_EQ(all.batches[static_cast<size_t>(number)],
              batch({{"per_device_train_batch_size", "1"}, {"max_length", "20"}}, number));
    const int64_t row = all.batches[static_cast<size_t>(number)]["row_ids"][0];
    EXPECT_EQ(all.batches[static_cast<size_t>(number)]["whole_lengths"],
              host::Json::array({example({{"max_length", "null"}}, row)["input_ids"].size()}));
  }
  EXPECT_EQ(visit(1, 5, second, see), TRL_OK);
  EXPECT_EQ(second.batches, std::vector<host::Json>{all.batches[1]});
  EXPECT_EQ(visit(0, 1, one, see), TRL_OK);
  EXPECT_EQ(one.batches.size(), 1u);
  EXPECT_EQ(visit(0, 0, none, see), TRL_OK);
  EXPECT_TRUE(none.batches.empty());
  EXPECT_EQ(visit(0, 2, stopped, see), TRL_OK);
  EXPECT_EQ(stopped.batches.size(), 1u);
  EXPECT_EQ(visit(0, 2, failed, see), TRL_E_CALLBACK);
  EXPECT_EQ(failed.batches.size(), 1u);
  EXPECT_EQ(visit(2, 1, none, see), TRL_E_INVALID_ARGUMENT);
  EXPECT_EQ(visit(-1, 1, none, see), TRL_E_INVALID_ARGUMENT);
  EXPECT_EQ(visit(0, -1, none, see), TRL_E_INVALID_ARGUMENT);
  EXPECT_EQ(visit(0, 1, none, nullptr), TRL_E_INVALID_ARGUMENT);
  EXPECT_TRUE(none.batches.empty());
}

TEST(Batch, HasPairsAndTheirColumns) {
  NEED_GOLDEN("models/qwen2/tokenizer.json");
  constexpr const char* kPair =
      "{\"prompt\": \"Who?\", \"chosen\": \" Ines.\", \"rejected\": \" Nobody.\", \"margin\": 0.5}\n";
  for (const char* shared : {"false", "true"}) {
    const host::Json pair = batch({{"method", "dpo"}, {"share_prefix", shared}}, 0, kPair);
    ASSERT_EQ(pair["sequences"].size(), 2u);
    EXPECT_EQ(text_of(pair["sequences"][0], false), "Who?");
    EXPECT_EQ(text_of(pair["sequences"][1], false), "Who?");
    EXPECT_TRUE(text_of(pair["sequences"][0], true).starts_with(" Ines."));
    EXPECT_TRUE(text_of(pair["sequences"][1], true).starts_with(" Nobody."));
  }
  const host::Json scored = batch({{"method", "reward"}}, 0, kPair);
  EXPECT_EQ(scored["columns"]["margin"], host::Json::array({0.5, 0.5}));
}

TEST(Batch, NamesWhatIsWrong) {
  NEED_GOLDEN("models/qwen2/tokenizer.json");
  const auto words = tokenizer();
  const auto rows = host::rows(kRows);
  const auto none = [](void*, const char*, size_t) {
    ADD_FAILURE() << "there is no such batch";
    return int32_t{0};
  };
  for (const int64_t number : {int64_t{-1}, int64_t{2}}) {
    Error error;
    EXPECT_EQ(trl_dataset_visit_batches(rows.get(), words.get(),
                                        host::config({{"per_device_train_batch_size", "1"}}).get(), number, 1,
                                        none, nullptr, error),
              TRL_E_INVALID_ARGUMENT);
    EXPECT_TRUE(error.names("first: " + std::to_string(number))) << error.message();
  }
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
