// Rows of each micro-batch, against what Trainer's samplers and Accelerate's shards gave.
#include <gtest/gtest.h>

#include <numeric>

#include "base/error.h"
#include "data/batch/order.h"
#include "data/source/numpy_shuffle.h"
#include "support/golden.h"

namespace trl::data {
namespace {

using Batches = std::vector<std::vector<int64_t>>;

Batches epoch_batches(const OrderOptions& options, int64_t epoch, std::span<const uint32_t> lengths = {}) {
  const EpochOrder order(options, epoch, lengths);
  Batches batches;
  for (int64_t i = 0; i < order.size(); ++i) batches.push_back(order.batch(i));
  return batches;
}

TEST(Order, EqualsTrainersForEveryRank) {
  TRL_NEED_GOLDEN("order/cases.json");
  const base::Json cases = test::golden_json("order/cases.json");
  int run = 0;
  for (const base::Json& item : cases["dataloader"]) {
    OrderOptions options;
    options.rows = item["n"];
    options.batch_size = item["per_device_train_batch_size"];
    options.drop_last = item["dataloader_drop_last"];
    options.seed = item["data_seed"].is_null() ? item["seed"] : item["data_seed"];
    options.ranks = item["ranks"];
    int64_t epoch = 0;
    for (const base::Json& want : item["epochs"]) {
      for (options.rank = 0; options.rank < options.ranks; ++options.rank) {
        EXPECT_EQ(epoch_batches(options, epoch), want[static_cast<size_t>(options.rank)].get<Batches>())
            << item.dump();
        ++run;
      }
      ++epoch;
    }
  }
  EXPECT_EQ(run, 90);
}

TEST(Order, GroupsByLength) {
  TRL_NEED_GOLDEN("order/cases.json");
  const base::Json cases = test::golden_json("order/cases.json");
  int run = 0;
  for (const base::Json& item : cases["length_grouped_indices"]) {
    const auto lengths = item["lengths"].get<std::vector<uint32_t>>();
    base::TorchGenerator generator(item["seed"]);
    EXPECT_EQ(length_grouped(lengths, item["batch_size"], generator),
              item["order"].get<std::vector<uint32_t>>());
    ++run;
  }
  EXPECT_EQ(run, 6);
  for (const base::Json& item : cases["group_by_length"]) {
    const auto lengths = item["lengths"].get<std::vector<uint32_t>>();
    OrderOptions options;
    options.rows = static_cast<int64_t>(lengths.size());
    options.batch_size = item["per_device_train_batch_size"];
    options.group_batch = options.batch_size * item["gradient_accumulation_steps"].get<int64_t>();
    options.sampling = Sampling::group_by_length;
    options.seed = item["seed"];
    for (size_t epoch = 0; epoch < item["epochs"].size(); ++epoch) {
      EXPECT_EQ(epoch_batches(options, static_cast<int64_t>(epoch), lengths),
                item["epochs"][epoch].get<Batches>());
      ++run;
    }
  }
  EXPECT_EQ(run, 15);
}

// Trainer draws from one generator; each pass of evaluation takes a number of it.
TEST(Order, GroupedByLengthDependsOnTheEvaluationsBefore) {
  const std::vector<uint32_t> lengths = {5, 9, 1, 7, 3, 8, 2, 6, 4};
  OrderOptions options{.rows = 9, .batch_size = 2, .sampling = Sampling::group_by_length, .seed = 42};
  options.group_batch = 2;
  base::TorchGenerator generator(42);
  std::vector<std::vector<uint32_t>> orders;
  for (const int draws : {2, 3}) {  // an evaluation before the first epoch, two more before the second
    for (int i = 0; i < draws; ++i) generator.random_int64();
    orders.push_back(length_grouped(lengths, 2, generator));
  }
  const std::vector<int64_t> before = {1, 3};
  for (size_t epoch = 0; epoch < 2; ++epoch) {
    const EpochOrder order(options, static_cast<int64_t>(epoch), lengths, before);
    std::vector<uint32_t> rows;
    for (int64_t i = 0; i < order.size(); ++i) {
      for (const int64_t row : order.batch(i)) rows.push_back(static_cast<uint32_t>(row));
    }
    EXPECT_EQ(rows, orders[epoch]) << epoch;
  }
  options.own_generator = true;
  base::TorchGenerator own(42);
  const EpochOrder evaluation(options, 0, lengths);
  EXPECT_EQ(evaluation.batch(0)[0], length_grouped(lengths, 2, own)[0]);
}

TEST(Order, SequentialAndDropLast) {
  OrderOptions options{.rows = 7, .batch_size = 3, .sampling = Sampling::sequential};
  EXPECT_EQ(epoch_batches(options, 5), (Batches{{0, 1, 2}, {3, 4, 5}, {6}}));
  options.drop_last = true;
  EXPECT_EQ(epoch_batches(options, 0), (Batches{{0, 1, 2}, {3, 4, 5}}));
  options.rows = 2;
  try {
    batches_per_epoch(options);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.key(), "dataloader_drop_last");
    EXPECT_EQ(
        error.message(),
        "dataloader_drop_last: 2 rows are fewer than one batch of 3 (per_device_train_batch_size), so no "
        "batch is left; give a smaller batch, or dataloader_drop_last: false");
  }
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

}  // namespace
}  // namespace trl::data
