// Rows that are read, prepared and forgotten as they come: the batches of the same rows in their order.
#include <gtest/gtest.h>

#include <numeric>

#include "data/batch_stream.h"
#include "support/error_of.h"
#include "support/letter_tokenizer.h"
#include "support/warnings.h"

namespace trl::data {
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
    return batches_as_read(source(extra), context, kBatch, {});
  }
  std::unique_ptr<BatchStream> in_order() {
    OrderOptions order;
    order.batch_size = kBatch;
    order.sampling = Sampling::sequential;
    return batches_in_order(prepare_sft(*source(), context), order, {});
  }
  test::LetterTokenizer tokenizer;
  config::SftDataArguments arguments;
  test::Warnings log;
  base::ThreadPool pool{2};
  base::MemoryCounter memory;
  PrepareContext context;
};

std::vector<std::vector<int32_t>> epoch(BatchStream& stream, int64_t number, int64_t skip = 0) {
  std::vector<std::vector<int32_t>> out;
  HostBatch batch;
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
  HostBatch batch;
  streamed->start_epoch(0);
  ASSERT_TRUE(streamed->next(batch));
  EXPECT_TRUE(shop.log.lines.empty());
  streamed->tell();
  streamed->tell();
  ASSERT_EQ(shop.log.lines.size(), 1u);
  EXPECT_TRUE(shop.log.lines[0].find(" of 1000 rows cut to max_length 60") != std::string::npos)
      << shop.log.lines[0];
}

TEST(Streaming, ABadRowIsMetWhenItsBlockIs) {
  Shop shop;
  const auto streamed = shop.streamed("{\"text\": 5}\n");
  HostBatch batch;
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
  HostBatch batch;
  const auto empty = batches_as_read(open_memory_source("jsonl", "", "t.jsonl"), shop.context, 3, {});
  empty->start_epoch(0);
  EXPECT_EQ(test::error_of([&] { empty->next(batch); }).second, "t.jsonl: holds no rows");
}

}  // namespace
}  // namespace trl::data
