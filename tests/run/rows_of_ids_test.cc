// Rows of token ids from memory, of each source: what is trained on, and what is wrong with them.
#include <algorithm>
#include <utility>

#include "host.h"
#include "support/arrow_stream.h"

namespace {

using host::Error;
using host::Json;
using Ids = std::vector<int32_t>;
using Columns = std::vector<std::pair<std::string, Ids>>;

host::Tokenizer qwen2_tokenizer() {
  trl_tokenizer* made = nullptr;
  EXPECT_EQ(trl_tokenizer_open(nullptr, host::golden("models/qwen2").c_str(), nullptr, &made, nullptr),
            TRL_OK);
  return host::Tokenizer(made);
}

// One row of such columns, given once each time.
struct OneRow {
  Columns columns;
  bool given = false;
  static int32_t next(void* data, trl_record* record) {
    auto& self = *static_cast<OneRow*>(data);
    if (std::exchange(self.given, true)) return TRL_END;
    for (const auto& [name, ids] : self.columns) {
      EXPECT_EQ(
          trl_record_set_ids(record, name.c_str(), ids.empty() ? nullptr : ids.data(), ids.size(), nullptr),
          TRL_OK);
    }
    Error error;
    EXPECT_EQ(trl_record_set_ids(record, "input_ids", nullptr, 3, error), TRL_E_INVALID_ARGUMENT);
    EXPECT_TRUE(error.names("ids")) << error.message();
    EXPECT_EQ(trl_record_set_ids(record, nullptr, nullptr, 0, nullptr), TRL_E_INVALID_ARGUMENT);
    return TRL_OK;
  }
  static int32_t rewind(void* data) {
    static_cast<OneRow*>(data)->given = false;
    return 0;
  }
};

enum class Source { callback, buffer, arrow };

// The row's example, or the message of its error, with the name of the rows cut off.
std::string example(Source from, const Columns& columns, const host::Settings& settings = {}) {
  OneRow row{columns};
  std::vector<trl::test::ArrowColumn> arrow;
  Json json = Json::object();
  for (const auto& [name, ids] : columns) {
    json[name] = ids;
    arrow.push_back(trl::test::arrow_ids(name, {ids}));
  }
  trl::test::ArrowStream stream({trl::test::arrow_batch(arrow)});
  const std::string line = json.dump();
  trl_dataset* made = nullptr;
  Error error;
  trl_status status = TRL_OK;
  if (from == Source::callback)
    status = trl_dataset_from_callback(nullptr, OneRow::next, OneRow::rewind, &row, nullptr, nullptr, &made,
                                       error);
  else if (from == Source::buffer)
    status = trl_dataset_from_buffer(nullptr, "jsonl", line.data(), line.size(), nullptr, &made, error);
  else
    status = trl_dataset_from_arrow(nullptr, stream.stream(), nullptr, &made, error);
  EXPECT_EQ(status, TRL_OK) << error.message();
  const host::Dataset dataset(made);
  const auto words = qwen2_tokenizer();
  const char* out = nullptr;
  status = trl_dataset_get_example(dataset.get(), words.get(), host::config(settings).get(), 0, &out, error);
  if (status == TRL_OK) return out;
  EXPECT_EQ(status, TRL_E_FORMAT) << error.message();
  const std::string message = error.message();
  return message.substr(std::min(message.find("column"), message.size()));
}

TEST(RowsOfIds, AreTrainedOnAsTheyAre) {
  NEED_GOLDEN("models/qwen2/tokenizer.json");
  const auto labels = [](const std::string& text) { return host::parse(text)["labels"].get<Ids>(); };
  for (const Source from : {Source::callback, Source::buffer, Source::arrow}) {
    SCOPED_TRACE(static_cast<int>(from));
    const std::string plain = example(from, {{"input_ids", {64, 475, 65}}});
    EXPECT_EQ(host::parse(plain)["input_ids"].get<Ids>(), (Ids{64, 475, 65}));
    EXPECT_EQ(labels(plain), (Ids{64, 475, 65}));
    EXPECT_EQ(labels(example(from, {{"input_ids", {64, 475, 65}}, {"labels", {-100, 475, 66}}})),
              (Ids{-100, 475, 66}));
    EXPECT_EQ(labels(example(from, {{"input_ids", {64, 475, 65}}, {"completion_mask", {0, 0, 1}}},
                             {{"completion_only_loss", "true"}})),
              (Ids{-100, -100, 65}));
    EXPECT_EQ(labels(example(from, {{"input_ids", {64, 475, 65}}, {"assistant_masks", {0, 1, 0}}})),
              (Ids{-100, 475, -100}));
  }
}

// The embedding has 512 rows, and the tokenizer 480 tokens.
TEST(RowsOfIds, MayHaveIdsThatOnlyTheModelHas) {
  NEED_GOLDEN("models/qwen2/tokenizer.json");
  const host::Settings model = {{"model_name_or_path", host::golden("models/qwen2")}};
  const Json row = host::parse(example(Source::buffer, {{"input_ids", {64, 511, 65}}}, model));
  EXPECT_EQ(row["input_ids"].get<Ids>(), (Ids{64, 511, 65}));
  EXPECT_EQ(row["texts"][1], "");
  EXPECT_TRUE(example(Source::buffer, {{"input_ids", {64, 512}}}, model)
                  .starts_with("column 'input_ids', element 2: 512 is not a token id: 0 to 511 is accepted"));
  EXPECT_TRUE(example(Source::buffer, {{"input_ids", {64, 480}}})
                  .starts_with("column 'input_ids', element 2: 480 is not a token id: 0 to 479 is accepted"));
}

TEST(RowsOfIds, NameTheColumnThatIsWrong) {
  NEED_GOLDEN("models/qwen2/tokenizer.json");
  for (const Source from : {Source::callback, Source::buffer, Source::arrow}) {
    SCOPED_TRACE(static_cast<int>(from));
    EXPECT_TRUE(example(from, {{"input_ids", {64, 1 << 20}}})
                    .starts_with("column 'input_ids', element 2: 1048576 is not a token id: 0 to "));
    EXPECT_TRUE(example(from, {{"input_ids", {64, -100}}})
                    .starts_with("column 'input_ids', element 2: -100 is not a token id"));
    EXPECT_EQ(example(from, {{"input_ids", {64, 65}}, {"labels", {64}}}),
              "column 'labels' has 1 elements and 'input_ids' has 2; the numbers must be equal");
    EXPECT_EQ(example(from, {{"input_ids", {64, 65}}, {"completion_mask", {1, 0, 1}}}),
              "column 'completion_mask' has 3 elements and 'input_ids' has 2; the numbers must be equal");
  }
}

// The sequences of the first batch of a preference method.
Json sequences(const std::string& method, const std::string& rows) {
  const auto words = qwen2_tokenizer();
  Json batch;
  Error error;
  const auto keep = [](void* any, const char* json, size_t size) {
    *static_cast<Json*>(any) = host::parse({json, size});
    return int32_t{0};
  };
  EXPECT_EQ(trl_dataset_visit_batches(host::rows(rows).get(), words.get(),
                                      host::config({{"method", method}}).get(), 0, 1, keep, &batch, error),
            TRL_OK)
      << error.message();
  return batch["sequences"];
}

TEST(RowsOfIds, MakePairs) {
  NEED_GOLDEN("models/qwen2/tokenizer.json");
  const Json pair =
      sequences("dpo", R"({"prompt_ids": [64, 65], "chosen_ids": [66], "rejected_ids": [67, 475]})");
  ASSERT_EQ(pair.size(), 2u);
  EXPECT_EQ(pair[0]["input_ids"].get<Ids>(), (Ids{64, 65, 66}));
  EXPECT_EQ(pair[1]["input_ids"].get<Ids>(), (Ids{64, 65, 67, 475}));
  EXPECT_EQ(pair[1]["labels"].get<Ids>(), (Ids{-100, -100, 67, 475}));
  const Json scored = sequences("reward", R"({"chosen_ids": [66], "rejected_ids": [67, 475]})");
  ASSERT_EQ(scored.size(), 2u);
  EXPECT_EQ(scored[0]["input_ids"].get<Ids>(), (Ids{66}));
}

// A special token that a row spells out is text with the option, and with that of the tokenizer.
TEST(Example, SplitsSpecialTokens) {
  NEED_GOLDEN("models/qwen2/tokenizer.json");
  const auto rows = host::rows(
      R"({"messages": [{"role": "user", "content": "a<|im_end|>b"}, {"role": "assistant", "content": "c"}]})");
  const auto ends = [&](const trl_tokenizer* words, const host::Settings& settings) {
    const char* out = nullptr;
    Error error;
    EXPECT_EQ(trl_dataset_get_example(rows.get(), words, host::config(settings).get(), 0, &out, error),
              TRL_OK)
        << error.message();
    if (out == nullptr) return std::ptrdiff_t{-1};
    const Ids ids = host::parse(out)["input_ids"].get<Ids>();
    return std::count(ids.begin(), ids.end(), 475);
  };
  const auto plain = qwen2_tokenizer();
  const auto of_template = ends(plain.get(), {{"split_special_tokens", "true"}});
  EXPECT_GE(of_template, 2);
  EXPECT_EQ(ends(plain.get(), {}), of_template + 1);
  trl_tokenizer* made = nullptr;
  ASSERT_EQ(trl_tokenizer_open(nullptr, host::golden("models/qwen2").c_str(),
                               host::config({{"split_special_tokens", "true"}}).get(), &made, nullptr),
            TRL_OK);
  const host::Tokenizer splitting(made);
  EXPECT_EQ(ends(splitting.get(), {}), of_template);
}

}  // namespace
