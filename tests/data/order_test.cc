// Rows of each micro-batch, and their layout, against what Trainer's samplers and TRL's collator gave.
#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "data/numpy_shuffle.h"
#include "data/sft.h"
#include "support/golden.h"

namespace trl::data {
namespace {

using Batches = std::vector<std::vector<int64_t>>;

TEST(Order, OneProcessCasesEqualTrainers) {
  TRL_NEED_GOLDEN("order/cases.json");
  const base::Json cases = test::golden_json("order/cases.json");
  int run = 0;
  for (const base::Json& item : cases["dataloader"]) {
    if (item["ranks"] != 1) continue;
    OrderOptions options;
    options.rows = item["n"];
    options.batch_size = item["per_device_train_batch_size"];
    options.drop_last = item["dataloader_drop_last"];
    options.seed = item["data_seed"].is_null() ? item["seed"] : item["data_seed"];
    int64_t epoch = 0;
    for (const base::Json& want : item["epochs"]) {
      EXPECT_EQ(epoch_order(options, epoch++), want[0].get<Batches>()) << item.dump();
      ++run;
    }
  }
  EXPECT_EQ(run, 24);
}

TEST(Order, SequentialAndDropLast) {
  OrderOptions options{.rows = 7, .batch_size = 3, .sequential = true};
  EXPECT_EQ(epoch_order(options, 5), (Batches{{0, 1, 2}, {3, 4, 5}, {6}}));
  options.drop_last = true;
  EXPECT_EQ(epoch_order(options, 0), (Batches{{0, 1, 2}, {3, 4, 5}}));
  options.rows = 2;
  EXPECT_EQ(epoch_order(options, 0), Batches{});
}

// numpy.random.default_rng(seed).permutation(n), numpy 2.
TEST(Order, NumpyPermutation) {
  EXPECT_EQ(numpy_permutation(0, 12), (std::vector<int64_t>{9, 2, 7, 4, 5, 11, 0, 3, 6, 10, 8, 1}));
  EXPECT_EQ(numpy_permutation(42, 12), (std::vector<int64_t>{0, 7, 6, 9, 11, 3, 5, 2, 4, 10, 1, 8}));
  EXPECT_EQ(numpy_permutation(7, 12), (std::vector<int64_t>{4, 6, 10, 0, 1, 3, 8, 7, 2, 5, 9, 11}));
  EXPECT_EQ(numpy_permutation((1ull << 32) + 5, 12),
            (std::vector<int64_t>{6, 9, 5, 8, 2, 4, 7, 0, 11, 10, 3, 1}));
  EXPECT_EQ(numpy_permutation(12345678901234567890ull, 12),
            (std::vector<int64_t>{0, 9, 10, 1, 6, 5, 4, 3, 2, 7, 11, 8}));
  std::vector<int64_t> large = numpy_permutation(42, 1000);
  EXPECT_EQ(std::vector<int64_t>(large.begin(), large.begin() + 8),
            (std::vector<int64_t>{978, 933, 859, 916, 127, 608, 856, 260}));
  std::sort(large.begin(), large.end());
  for (int64_t i = 0; i < 1000; ++i) EXPECT_EQ(large[static_cast<size_t>(i)], i);
  EXPECT_EQ(numpy_permutation(1, 1), std::vector<int64_t>{0});
  EXPECT_EQ(numpy_permutation(1, 0), std::vector<int64_t>{});
}

// Rows that are given, row i of source row 100 + i.
class GivenExamples final : public Examples {
 public:
  explicit GivenExamples(const base::Json& examples) {
    for (const base::Json& example : examples) {
      ids_.push_back(example["input_ids"]);
      labels_.push_back(example["labels"]);
    }
  }
  int64_t size() const override { return static_cast<int64_t>(ids_.size()); }
  std::pair<const int32_t*, int64_t> input_ids(int64_t row) const override {
    const auto& ids = ids_[static_cast<size_t>(row)];
    return {ids.data(), static_cast<int64_t>(ids.size())};
  }
  void copy_labels(int64_t row, int32_t* out) const override {
    const auto& labels = labels_[static_cast<size_t>(row)];
    std::copy(labels.begin(), labels.end(), out);
  }
  int64_t source_row(int64_t row) const override { return 100 + row; }
  int64_t total_tokens() const override { return 0; }
  bool completion_only_loss() const override { return false; }

 private:
  std::vector<std::vector<int32_t>> ids_, labels_;
};

std::vector<int32_t> flattened(const base::Json& rows) {
  std::vector<int32_t> out;
  for (const base::Json& row : rows) {
    for (const base::Json& value : row) out.push_back(value);
  }
  return out;
}

TEST(Collate, PaddedEqualsTrlsCollator) {
  TRL_NEED_GOLDEN("data/prepared/collators.json");
  int run = 0;
  const base::Json file = test::golden_json("data/prepared/collators.json");
  for (const base::Json& item : file["cases"]) {
    if (item["collator"] != "sft" || item["kwargs"]["padding_free"] == true) continue;
    const GivenExamples examples(item["examples"]);
    std::vector<int64_t> rows(static_cast<size_t>(examples.size()));
    std::iota(rows.begin(), rows.end(), 0);
    HostBatch batch;
    collate(examples, rows, batch);
    const base::Json& multiple = item["kwargs"]["pad_to_multiple_of"];
    const PaddedBatch padded =
        pad(batch, item["kwargs"]["pad_token_id"], multiple.is_null() ? 1 : multiple.get<int64_t>());
    EXPECT_EQ(padded.width, static_cast<int64_t>(item["batch"]["input_ids"][0].size()));
    EXPECT_EQ(padded.input_ids, flattened(item["batch"]["input_ids"]));
    EXPECT_EQ(padded.labels, flattened(item["batch"]["labels"]));
    EXPECT_EQ(padded.attention_mask, flattened(item["batch"]["attention_mask"]));
    ++run;
  }
  EXPECT_EQ(run, 6);
}

TEST(Collate, LaysRowsOneBehindTheOther) {
  const GivenExamples examples(base::parse_json(
      R"([{"input_ids":[1,2,3],"labels":[-100,2,3]},{"input_ids":[4],"labels":[4]},{"input_ids":[5,6],"labels":[5,-100]}])",
      "rows"));
  HostBatch batch;
  batch.row_ids = {7};  // what an earlier batch left
  collate(examples, {2, 0}, batch);
  EXPECT_EQ(batch.input_ids, (std::vector<int32_t>{5, 6, 1, 2, 3}));
  EXPECT_EQ(batch.labels, (std::vector<int32_t>{5, -100, -100, 2, 3}));
  EXPECT_EQ(batch.position_ids, (std::vector<int32_t>{0, 1, 0, 1, 2}));
  EXPECT_EQ(batch.cu_seqlens, (std::vector<int32_t>{0, 2, 5}));
  EXPECT_EQ(batch.row_ids, (std::vector<int64_t>{102, 100}));
  EXPECT_EQ(batch.max_length, 3);
  EXPECT_EQ(batch.counted_tokens, 5);
}

TEST(BatchStream, WalksEpochsAndSkips) {
  const GivenExamples examples(base::parse_json(
      R"([{"input_ids":[0],"labels":[0]},{"input_ids":[1],"labels":[1]},{"input_ids":[2],"labels":[2]},
          {"input_ids":[3],"labels":[3]},{"input_ids":[4],"labels":[4]}])",
      "rows"));
  BatchStream stream(examples, {.batch_size = 2, .seed = 42});
  EXPECT_EQ(stream.batches_per_epoch(), 3);
  EXPECT_EQ(stream.rows(), 5);
  HostBatch batch;
  EXPECT_FALSE(stream.next(batch));  // no epoch yet
  for (const int64_t skip : {0, 2, 3, 9}) {
    stream.start_epoch(1, skip);
    const Batches order = epoch_order({.rows = 5, .batch_size = 2, .seed = 42}, 1);
    for (size_t i = static_cast<size_t>(skip); i < order.size(); ++i) {
      ASSERT_TRUE(stream.next(batch));
      for (size_t k = 0; k < order[i].size(); ++k) EXPECT_EQ(batch.row_ids[k], 100 + order[i][k]);
    }
    EXPECT_FALSE(stream.next(batch));
  }
  try {
    BatchStream({examples}, {.batch_size = 6, .drop_last = true});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.key(), "dataloader_drop_last");
    EXPECT_EQ(error.message(),
              "dataloader_drop_last: 5 rows are fewer than one batch of 6, so no batch is left");
  }
}

}  // namespace
}  // namespace trl::data
