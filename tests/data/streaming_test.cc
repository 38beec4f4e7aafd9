// Rows that are read, prepared and forgotten as they come: the batches of the same rows in their order.
#include <gtest/gtest.h>

#include <numeric>

#include "data/batch/batch_stream.h"
#include "data/batch/preference_batches.h"
#include "support/error_of.h"
#include "support/golden.h"
#include "support/letter_tokenizer.h"
#include "support/warnings.h"

namespace trl::data::streaming_test {
namespace {

struct Shop {
  static constexpr int64_t kBatch = 3;
  Shop() {
    context.tokenizer = &tokenizer;
    context.arguments = &arguments;
    context.log = &log;
    context.pool = &pool;
    context.memory = &memory;
    arguments.max_length = 60;
  }
  std::unique_ptr<Source> source(const std::string& extra = "") const {
    std::string text;
    for (int i = 0; i < 2500; ++i)
      text += fmt::format("{{\"text\": \"{}\"}}\n",
                          std::string(static_cast<size_t>(1 + i * 37 % 90), static_cast<char>('a' + i % 26)));
    return open_memory_source("jsonl", text + extra, "t.jsonl");
  }
  std::unique_ptr<BatchStream> streamed(const std::string& extra = "") {
    Shards shards;
    shards.push_back(source(extra));
    return batches_as_read(std::move(shards), context, kBatch, streamed_sft({}));
  }
  std::unique_ptr<BatchStream> in_order() {
    OrderOptions order;
    order.batch_size = kBatch;
    order.sampling = Sampling::sequential;
    return batches_in_order(prepare_sft(*source(), context), order, {});
  }
  test::LetterTokenizer tokenizer;
  config::DataArguments arguments;
  test::Warnings log;
  base::ThreadPool pool{2};
  base::MemoryCounter memory;
  PrepareContext context;
};

std::vector<std::vector<int32_t>> epoch(BatchStream& stream, int64_t number, int64_t skip = 0) {
  std::vector<std::vector<int32_t>> out;
  Batch batch;
  stream.start_epoch(number, skip);
  while (stream.next(batch)) {
    out.push_back(batch.input_ids);
    out.push_back(batch.labels);
    out.push_back(batch.cu_seqlens);
  }
  return out;
}

TEST(Streaming, GivesTheBatchesOfTheSameRows) {
  for (const Packing packing : {Packing::none, Packing::bfd, Packing::bfd_split, Packing::wrapped}) {
    Shop shop;
    shop.context.packing = packing;
    const auto streamed = shop.streamed(), in_order = shop.in_order();
    const auto want = epoch(*in_order, 0);
    EXPECT_GT(want.size(), 300u);
    EXPECT_EQ(epoch(*streamed, 0), want);
    EXPECT_EQ(epoch(*streamed, 1), want);  // again from the start
    const auto rest = epoch(*streamed, 2, 100);
    EXPECT_EQ(rest, std::vector(want.begin() + 300, want.end()));
    EXPECT_EQ(streamed->rows(), -1);
    EXPECT_EQ(streamed->batches_per_epoch(), -1);
  }
}

// Trainer gives drop_last to the DataLoader of a dataset with a length alone.
TEST(Streaming, DropLastLeavesOutNothing) {
  Shop shop;
  config::TrainingArguments training;
  training.per_device_train_batch_size = training.per_device_eval_batch_size = Shop::kBatch;
  shop.arguments.dataloader_drop_last = shop.arguments.streaming = true;
  for (const OrderOptions& order :
       {train_order(training, shop.arguments), eval_order(training, shop.arguments)}) {
    EXPECT_FALSE(order.drop_last);
    EXPECT_EQ(order.sampling, Sampling::sequential);
  }
  EXPECT_EQ(epoch(*shop.streamed(), 0).size(), 3u * 834);  // 2500 rows
  shop.arguments.streaming = false;
  EXPECT_TRUE(train_order(training, shop.arguments).drop_last);
}

TEST(Streaming, TellsOnceWhatWasCut) {
  Shop shop;
  const auto streamed = shop.streamed();
  epoch(*streamed, 0);
  epoch(*streamed, 1);
  ASSERT_EQ(shop.log.lines.size(), 1u);
  EXPECT_TRUE(shop.log.lines[0].starts_with("t.jsonl: ")) << shop.log.lines[0];
}

TEST(Streaming, TellsAtTheEndOfARunWhatWasCutSoFar) {
  Shop shop;
  const auto streamed = shop.streamed();
  Batch batch;
  streamed->start_epoch(0);
  ASSERT_TRUE(streamed->next(batch));
  EXPECT_TRUE(shop.log.lines.empty());
  streamed->tell();
  streamed->tell();
  ASSERT_EQ(shop.log.lines.size(), 1u);
  EXPECT_TRUE(shop.log.lines[0].find(" of 1000 rows cut to max_length 60") != std::string::npos)
      << shop.log.lines[0];
}

// Rows of preferences, some of which are dropped, in the order of their file.
struct Pairs : Shop {
  std::string rows, unpaired;
  OrderOptions order;
  const Truncation truncation{60};
  Pairs() {
    for (int i = 0; i < 2500; ++i) {
      const std::string prompt(static_cast<size_t>(1 + i * 37 % 90), static_cast<char>('a' + i % 26));
      rows += fmt::format(
          "{{\"prompt\": \"{}\", \"chosen\": \"b{}\", \"rejected\": \"c\", \"margin\": {}}}\n", prompt, i, i);
      unpaired += fmt::format("{{\"prompt\": \"{}\", \"completion\": \"b{}\", \"label\": {}}}\n", prompt, i,
                              i % 3 == 0);
    }
    order.batch_size = kBatch;
    order.sampling = Sampling::sequential;
  }
  std::unique_ptr<BatchStream> as_read(const std::string& text, StreamedRows how) {
    Shards shards;
    shards.push_back(open_memory_source("jsonl", text, "t.jsonl"));
    return batches_as_read(std::move(shards), context, kBatch, std::move(how));
  }
  std::shared_ptr<const Table> table(const std::string& text) const {
    return spool_rows(*open_memory_source("jsonl", text, "t.jsonl"), {});
  }
};

void expect_same_batches(BatchStream& streamed, BatchStream& in_order) {
  for (const int64_t number : {0, 1}) {
    streamed.start_epoch(number, 5);
    in_order.start_epoch(number, 5);
    Batch got, want;
    int64_t batches = 0;
    for (; in_order.next(want); ++batches) {
      ASSERT_TRUE(streamed.next(got));
      EXPECT_EQ(got.input_ids, want.input_ids);
      EXPECT_EQ(got.labels, want.labels);
      EXPECT_EQ(got.cu_seqlens, want.cu_seqlens);
      EXPECT_EQ(got.row_ids, want.row_ids);
      EXPECT_EQ(got.columns, want.columns);
      EXPECT_EQ(got.rows, want.rows);
    }
    EXPECT_FALSE(streamed.next(got));
    EXPECT_GT(batches, 300);
  }
}

TEST(Streaming, GivesTheBatchesOfTheSamePairs) {
  Pairs shop;
  for (const bool reward : {false, true}) {
    const auto streamed =
        shop.as_read(shop.rows, streamed_pairs(reward ? reward_kind : dpo_kind, {}, shop.truncation));
    auto list = (reward ? prepare_reward : prepare_dpo)(shop.table(shop.rows), shop.context);
    expect_same_batches(*streamed, *batches_of_pairs(std::move(list), shop.order, {}, shop.truncation));
  }
}

// The groups whose completions are exchanged are the batches.
TEST(Streaming, GivesTheBatchesOfTheSameUnpairedRows) {
  Pairs shop;
  for (const std::string& rows : {shop.rows, shop.unpaired}) {
    for (const int64_t group : {int64_t{0}, Shop::kBatch}) {
      const auto streamed = shop.as_read(rows, streamed_unpaired({}, shop.truncation, group > 0));
      expect_same_batches(*streamed, *batches_of_unpaired(prepare_kto(shop.table(rows), shop.context),
                                                          shop.order, {}, shop.truncation, group));
    }
  }
}

TEST(Streaming, ABadRowIsMetWhenItsBlockIs) {
  Shop shop;
  const auto streamed = shop.streamed("{\"text\": 5}\n");
  Batch batch;
  streamed->start_epoch(0);
  for (int i = 0; i < 600; ++i) ASSERT_TRUE(streamed->next(batch));
  const auto [status, message] = test::error_of([&] {
    while (streamed->next(batch)) {
    }
  });
  EXPECT_EQ(status, Status::format);
  EXPECT_TRUE(message.starts_with("t.jsonl:2501: column 'text' is a number")) << message;
}

TEST(Streaming, NothingToTrainIsAnError) {
  Shop shop;
  Batch batch;
  Shards shards;
  shards.push_back(open_memory_source("jsonl", "", "t.jsonl"));
  const auto empty = batches_as_read(std::move(shards), shop.context, 3, streamed_sft({}));
  empty->start_epoch(0);
  EXPECT_EQ(test::error_of([&] { empty->next(batch); }).second, "t.jsonl: holds no rows");
}

// Rows as [id, count, ...], of 1 + id % 7 tokens each, in files of the given sizes.
std::unique_ptr<BatchStream> numbered_rows(const base::Json& one, Shop& shop) {
  const std::string packing = one["packing"].is_null() ? "" : one["packing"].get<std::string>();
  shop.arguments.shuffle_dataset = one["shuffle"];
  shop.arguments.max_length = packing.empty() ? 7 : 10;
  shop.context.packing = packing == "bfd"       ? Packing::bfd
                         : packing == "wrapped" ? Packing::wrapped
                                                : Packing::none;
  shop.context.vocab_size = 5000;
  Shards shards;
  int64_t row = 0;
  for (const int64_t size : one["files"]) {
    std::string text;
    for (int64_t i = 0; i < size; ++i, ++row) {
      const std::vector<int64_t> ids(static_cast<size_t>(1 + row % 7), row);
      const std::vector<int64_t> labels(ids.size(), one["drop"] == true && row % 5 == 0 ? -100 : row);
      text += base::Json({{"input_ids", ids}, {"labels", labels}}).dump() + "\n";
    }
    shards.push_back(open_memory_source("jsonl", text, fmt::format("{}.jsonl", shards.size())));
  }
  return batches_as_read(std::move(shards), shop.context, 1, streamed_sft({}));
}

std::vector<std::vector<int64_t>> streamed_rows(BatchStream& stream, int64_t epoch, int64_t skip = 0) {
  std::vector<std::vector<int64_t>> out;
  stream.start_epoch(epoch, skip);
  for (Batch batch; stream.next(batch);) {
    std::vector<int64_t>& row = out.emplace_back();
    for (const int32_t id : batch.input_ids) {
      if (row.empty() || row[row.size() - 2] != id) row.insert(row.end(), {id, 0});
      ++row.back();
    }
  }
  return out;
}

// Recorded from datasets' streams, mapped, filtered, packed and shuffled as SFTTrainer does it.
TEST(Streaming, OrderIsThatOfDatasets) {
  const base::Json cases = test::golden_json("streams/cases.json");
  ASSERT_EQ(cases.size(), 38u);
  for (const base::Json& one : cases) {
    Shop shop;
    const auto stream = numbered_rows(one, shop);
    const auto got = streamed_rows(*stream, one["epoch"]);
    EXPECT_EQ(got.size(), one["count"]) << one;
    const auto want = one["rows"].get<std::vector<std::vector<int64_t>>>();
    if (got.size() == want.size()) {
      EXPECT_EQ(got, want) << one;
      continue;
    }
    ASSERT_EQ(want.size(), 40u);  // its first 20 and its last
    ASSERT_GE(got.size(), 40u);
    EXPECT_EQ(std::vector(got.begin(), got.begin() + 20), std::vector(want.begin(), want.begin() + 20))
        << one;
    EXPECT_EQ(std::vector(got.end() - 20, got.end()), std::vector(want.begin() + 20, want.end())) << one;
  }
}

TEST(Streaming, ShuffledRowsGoOnWhereTheyWere) {
  for (const char* packing : {"null", "\"bfd\""}) {
    const base::Json one = base::Json::parse(fmt::format(
        R"({{"files": [600, 900, 300], "packing": {}, "drop": false, "shuffle": true}})", packing));
    Shop first, second;
    const auto all = streamed_rows(*numbered_rows(one, first), 1);
    const auto rest = streamed_rows(*numbered_rows(one, second), 1, 500);
    EXPECT_EQ(rest, std::vector(all.begin() + 500, all.end()));
  }
}

}  // namespace
}  // namespace trl::data::streaming_test
