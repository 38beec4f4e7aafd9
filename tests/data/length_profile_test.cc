// Length profiles: percentiles, histograms and layouts worked out by hand, and against what preparation and
// collation really make of the same rows.
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "base/error.h"
#include "data/batch/batch_stream.h"
#include "data/lengths/length_layouts.h"
#include "data/lengths/profile_lengths.h"
#include "support/golden.h"
#include "support/letter_tokenizer.h"
#include "support/warnings.h"

namespace trl::data {
namespace {

using telemetry::Layout;
using telemetry::LayoutCost;
using telemetry::LengthDistribution;
using telemetry::LengthLimit;
using telemetry::LengthProfile;

LengthDistribution distribution(const std::vector<int64_t>& lengths) {
  LengthCounts counts;
  for (const int64_t length : lengths) counts.add(length);
  return counts.distribution("total");
}

TEST(LengthCounts, PercentilesAreNumpys) {
  const LengthDistribution four = distribution({4, 1, 3, 2});
  EXPECT_EQ(four.rows, 4);
  EXPECT_EQ(four.tokens, 10);
  EXPECT_EQ(four.min, 1);
  EXPECT_EQ(four.max, 4);
  EXPECT_DOUBLE_EQ(four.mean, 2.5);
  EXPECT_DOUBLE_EQ(four.percentile(50), 2.5);
  EXPECT_DOUBLE_EQ(four.percentile(25), 1.75);
  EXPECT_DOUBLE_EQ(four.percentile(95), 3.85);
  EXPECT_DOUBLE_EQ(four.percentile(99), 3.97);
  std::vector<int64_t> hundred_and_one(101);
  std::iota(hundred_and_one.begin(), hundred_and_one.end(), 0);
  const LengthDistribution even = distribution(hundred_and_one);
  for (const int percent : telemetry::kPercentiles) EXPECT_DOUBLE_EQ(even.percentile(percent), percent);
  const LengthDistribution one = distribution({7});
  for (const int percent : telemetry::kPercentiles) EXPECT_DOUBLE_EQ(one.percentile(percent), 7);
}

TEST(LengthCounts, BarsAreRoundAndCountEveryRow) {
  std::vector<int64_t> lengths(300);
  std::iota(lengths.begin(), lengths.end(), 1);  // 1 ... 300
  const auto bars = distribution(lengths).histogram;
  EXPECT_EQ(bars.start, 0);
  EXPECT_EQ(bars.width, 10);  // 5 would take 61
  ASSERT_EQ(bars.counts.size(), 31u);
  EXPECT_EQ(bars.counts[0], 9);   // 1 ... 9
  EXPECT_EQ(bars.counts[1], 10);  // 10 ... 19
  EXPECT_EQ(bars.counts[30], 1);  // 300
  EXPECT_EQ(bars.above, 0);
  const auto alike = distribution({1000, 1010, 1020}).histogram;
  EXPECT_EQ(alike.start, 1000);
  EXPECT_EQ(alike.width, 1);
  EXPECT_EQ(alike.counts.size(), 21u);
}

TEST(LengthCounts, FewFarLongerRowsStandApart) {
  std::vector<int64_t> lengths(999, 50);
  lengths.push_back(100000);
  const auto bars = distribution(lengths).histogram;
  EXPECT_EQ(bars.above, 1);
  EXPECT_EQ(std::accumulate(bars.counts.begin(), bars.counts.end(), int64_t{0}), 999);
  EXPECT_LE(bars.end(), 60);
}

// As trl_dataset_get_profile makes them.
LayoutOptions layout_options(const config::TrainingArguments& training, config::DataArguments data) {
  LayoutOptions options;
  options.order = train_order(training, data);
  data.sampling = Sampling::group_by_length;
  options.grouped = train_order(training, data);
  options.accumulation = training.gradient_accumulation_steps;
  return options;
}

// In the order of the file.
LayoutOptions as_they_stand(int64_t batch_size) {
  config::TrainingArguments training;
  training.per_device_train_batch_size = batch_size;
  config::DataArguments data;
  data.sampling = Sampling::sequential;
  return layout_options(training, data);
}

// Padding of a run's first epoch, from the rows of its real batches.
TEST(LengthLayouts, PaddingOfGroupedBatchesIsThatOfRealRuns) {
  TRL_NEED_GOLDEN("order/cases.json");
  const base::Json cases = test::golden_json("order/cases.json");
  base::ThreadPool pool(2);
  int seen = 0;
  for (const base::Json& one : cases["group_by_length"]) {
    const auto lengths = one["lengths"].get<std::vector<int64_t>>();
    config::TrainingArguments training;
    training.per_device_train_batch_size = one["per_device_train_batch_size"];
    training.gradient_accumulation_steps = one["gradient_accumulation_steps"];
    training.seed = one["seed"];
    const LayoutOptions options = layout_options(training, {});
    RowLengths rows;
    for (const int64_t length : lengths) rows.add(static_cast<uint32_t>(length), 0);
    LengthLimit limit;
    limit.max_length = 1000;
    lay_out(rows, 0, options, pool, limit);
    int64_t padding = 0;
    const base::Json& batches = one["epochs"][0];
    for (const base::Json& batch : batches) {
      int64_t longest = 0, sum = 0;
      for (const size_t row : batch.get<std::vector<size_t>>()) {
        longest = std::max(longest, lengths[row]);
        sum += lengths[row];
      }
      padding += longest * static_cast<int64_t>(batch.size()) - sum;
    }
    const LayoutCost& grouped = limit.layouts[static_cast<size_t>(Layout::group_by_length)];
    EXPECT_EQ(grouped.padding, padding);
    EXPECT_EQ(grouped.batches, static_cast<int64_t>(batches.size()));
    EXPECT_EQ(grouped.steps, static_cast<int64_t>(one["micro_batches_per_update"].size()));
    ++seen;
  }
  EXPECT_GE(seen, 3);
}

LengthLimit laid_out(const std::vector<uint32_t>& lengths, int64_t max_length, const LayoutOptions& options) {
  base::ThreadPool pool(3);
  RowLengths rows;
  for (const uint32_t length : lengths) rows.add(length, length == 0 ? 1 : 0);
  LengthLimit limit;
  limit.max_length = max_length;
  lay_out(rows, 0, options, pool, limit);
  return limit;
}

std::array<int64_t, 6> numbers(const LengthLimit& limit, Layout layout) {
  const LayoutCost& cost = limit.layouts[static_cast<size_t>(layout)];
  EXPECT_EQ(cost.layout, layout);
  return {cost.rows, cost.batches, cost.steps, cost.tokens, cost.padding, cost.lost};
}
using Six = std::array<int64_t, 6>;

TEST(LengthLayouts, ByHand) {
  // 3+3 | 2+2 | 1+1 | 4+5, max_length 4
  LayoutOptions options = as_they_stand(2);
  options.accumulation = 3;
  const LengthLimit limit = laid_out({3, 3, 2, 2, 1, 1, 4, 5}, 4, options);
  EXPECT_EQ(limit.rows_dropped, 0);
  EXPECT_EQ(numbers(limit, Layout::padded), (Six{8, 4, 2, 20, 0, 1}));
  EXPECT_EQ(numbers(limit, Layout::padding_free), (Six{8, 4, 2, 20, 0, 1}));
  // TRL: [4] [4] [3 1] [3 1] [2 2]
  EXPECT_EQ(numbers(limit, Layout::bfd), (Six{5, 3, 1, 20, 0, 1}));
  // pieces 3 3 2 2 1 1 4 4 1: [4] [4] [3 1] [3 1] [2 2] [1]
  EXPECT_EQ(numbers(limit, Layout::bfd_split), (Six{6, 3, 1, 21, 0, 0}));
  // 21 tokens: five rows of 4 and one of 1, beside a row of 4
  EXPECT_EQ(numbers(limit, Layout::wrapped), (Six{6, 3, 1, 21, 3, 0}));
}

TEST(LengthLayouts, PadsToTheLongestOfABatchAndToAMultiple) {
  LayoutOptions options = as_they_stand(3);
  const std::vector<uint32_t> lengths = {5, 2, 1, 7, 3, 9, 4};  // 5 5 5 | 9 9 9 | 4
  EXPECT_EQ(numbers(laid_out(lengths, 100, options), Layout::padded), (Six{7, 3, 3, 31, 7 + 8, 0}));
  options.pad_to_multiple_of = 8;  // 8 8 8 | 16 16 16 | 8; flat: 8 -> 8, 19 -> 24, 4 -> 8
  EXPECT_EQ(numbers(laid_out(lengths, 100, options), Layout::padded), (Six{7, 3, 3, 31, 80 - 31, 0}));
  EXPECT_EQ(numbers(laid_out(lengths, 100, options), Layout::padding_free), (Six{7, 3, 3, 31, 9, 0}));
  options.order.drop_last = true;  // the row of 4 tokens is left out
  EXPECT_EQ(numbers(laid_out(lengths, 100, options), Layout::padding_free), (Six{7, 2, 2, 27, 5, 4}));
}

TEST(LengthLayouts, PacksInsideBlocksOfAThousandRows) {
  const std::vector<uint32_t> lengths(1500, 3);  // TRL: 644 rows of at most 7, two of them short
  EXPECT_EQ(numbers(laid_out(lengths, 7, as_they_stand(8)), Layout::wrapped)[0], 644);
}

TEST(LengthLayouts, LongRowsAndEmptyOnes) {
  const LayoutOptions options = as_they_stand(1);
  const LengthLimit limit = laid_out({65534, 0, 65535, 70000, 3000000}, 5000000, options);
  EXPECT_EQ(limit.rows_dropped, 1);
  EXPECT_EQ(numbers(limit, Layout::padded), (Six{4, 4, 4, 3201069, 0, 0}));
  EXPECT_EQ(numbers(limit, Layout::bfd), (Six{1, 1, 1, 3201069, 0, 0}));
}

struct Bench {
  explicit Bench(std::string chat_template = "", int threads = 3)
      : tokenizer(std::move(chat_template)), pool(threads) {
    context.tokenizer = &tokenizer;
    context.arguments = &arguments;
    context.log = &log;
    context.pool = &pool;
    context.memory = &memory;
  }
  LengthProfile profile(const std::string& jsonl) {
    return profile_lengths(*open_memory_source("jsonl", jsonl, "t.jsonl"), context, options);
  }
  void run_as(const config::TrainingArguments& training) {
    const LayoutOptions layouts = layout_options(training, arguments);
    options.order = layouts.order;
    options.grouped = layouts.grouped;
    options.gradient_accumulation_steps = training.gradient_accumulation_steps;
  }
  Error error(const std::string& jsonl) {
    try {
      profile(jsonl);
    } catch (const Error& error) {
      return error;
    }
    return Error(Status::ok, "no error");
  }
  test::LetterTokenizer tokenizer;
  config::DataArguments arguments;
  base::NullLog log;
  base::ThreadPool pool;
  base::MemoryCounter memory;
  PrepareContext context;
  ProfileOptions options;
};

std::vector<std::string> names(const LengthProfile& profile) {
  std::vector<std::string> out;
  for (const LengthDistribution& of : profile.lengths) out.push_back(of.name);
  return out;
}

// A token a byte, BOS before and EOS behind.
TEST(LengthProfile, TextHasATotalAlone) {
  Bench bench;
  const LengthProfile profile = bench.profile("{\"text\": \"ab\"}\n{\"text\": \"abcdef\"}\n");
  EXPECT_EQ(profile.name, "t.jsonl");
  EXPECT_EQ(profile.format, "text");
  EXPECT_EQ(names(profile), std::vector<std::string>{"total"});
  EXPECT_EQ(profile.rows, 2);
  EXPECT_EQ(profile.tokens, 4 + 8);
  EXPECT_EQ(profile.lengths[0].min, 4);
  EXPECT_EQ(profile.lengths[0].max, 8);
}

constexpr const char* kPairs =
    "{\"prompt\": \"abc\", \"completion\": \"de\"}\n"       // ^abc de$: 4 + 3
    "{\"prompt\": \"a\", \"completion\": \"bcdefg\"}\n"     // ^a bcdefg$: 2 + 7
    "{\"prompt\": \"abcdefgh\", \"completion\": \"i\"}\n";  // ^abcdefgh i$: 9 + 2

TEST(LengthProfile, PromptAndCompletionAreToldApart) {
  for (const std::optional<bool> completion_only :
       {std::optional<bool>(), std::optional(true), std::optional(false)}) {
    Bench bench;
    bench.arguments.completion_only_loss = completion_only;
    bench.options.max_lengths = {8, 4, 8, 10, 9};
    const LengthProfile profile = bench.profile(kPairs);
    ASSERT_EQ(names(profile), (std::vector<std::string>{"total", "prompt", "completion"}));
    EXPECT_EQ(profile.tokens, 27);
    EXPECT_EQ(profile.lengths[1].tokens, 15);
    EXPECT_EQ(profile.lengths[2].tokens, 12);
    EXPECT_DOUBLE_EQ(profile.lengths[1].percentile(50), 4);
    ASSERT_EQ(profile.limits.size(), 4u);  // 4, 8, 9, 10
    const bool all = completion_only == false;
    const std::array<int64_t, 4> cut = {3, 2, 1, 1}, tokens_cut = {3 + 5 + 7, 1 + 3, 2, 1},
                                 dropped = {2, 1, 1, 0};
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(profile.limits[i].rows_cut, cut[i]) << i;
      EXPECT_EQ(profile.limits[i].tokens_cut, tokens_cut[i]) << i;
      EXPECT_EQ(profile.limits[i].rows_dropped, all ? 0 : dropped[i]) << i;
    }
    EXPECT_EQ(numbers(profile.limits[0], Layout::bfd)[5], 15);  // packing drops none
    EXPECT_EQ(numbers(profile.limits[0], Layout::padding_free)[5], all ? 15 : 23);
  }
}

TEST(LengthProfile, KeepEndKeepsWhatIsTrained) {
  Bench bench;
  bench.arguments.truncation_keep_end = true;
  bench.options.max_lengths = {1};
  EXPECT_EQ(bench.profile(kPairs).limits[0].rows_dropped, 0);
}

TEST(LengthProfile, WhatTheAssistantSaysCountsAsCompletion) {
  Bench bench(test::kMarkedTemplate);
  bench.arguments.assistant_only_loss = true;
  const LengthProfile profile = bench.profile(
      R"({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]})");
  // u:hi$ a:yes$ with "yes$" trained
  ASSERT_EQ(names(profile), (std::vector<std::string>{"total", "prompt", "completion"}));
  EXPECT_EQ(profile.lengths[0].max, 5 + 6);
  EXPECT_EQ(profile.lengths[1].max, 7);
  EXPECT_EQ(profile.lengths[2].max, 4);
}

TEST(LengthProfile, PreferenceRowsHaveTwoTotals) {
  Bench bench;
  bench.options.max_lengths = {7};
  const LengthProfile profile = bench.profile(
      "{\"prompt\": \"ab\", \"chosen\": \"cd\", \"rejected\": \"efgh\"}\n"
      "{\"prompt\": \"a\", \"chosen\": \"bcdefg\", \"rejected\": \"h\"}\n");
  ASSERT_EQ(names(profile), (std::vector<std::string>{"prompt+chosen", "prompt+rejected", "prompt"}));
  EXPECT_EQ(profile.tokens, 6 + 8 + 9 + 4);
  EXPECT_EQ(profile.lengths[0].max, 9);
  EXPECT_EQ(profile.lengths[1].max, 8);
  EXPECT_EQ(profile.lengths[2].max, 3);
  ASSERT_EQ(profile.limits.size(), 1u);
  EXPECT_EQ(profile.limits[0].rows_cut, 2);
  EXPECT_EQ(profile.limits[0].tokens_cut, 1 + 2);
  EXPECT_TRUE(profile.limits[0].layouts.empty());
  const LengthProfile implicit = bench.profile("{\"chosen\": \"abc\", \"rejected\": \"abde\"}\n");
  ASSERT_EQ(names(implicit), (std::vector<std::string>{"chosen", "rejected"}));
  EXPECT_EQ(implicit.lengths[1].max, 6);
}

TEST(LengthProfile, PowersOfTwoFromTheMedianToTheLongest) {
  Bench bench;
  std::string rows;
  for (const int length : {38, 38, 38, 98, 298}) rows += "{\"text\": \"" + std::string(length, 'x') + "\"}\n";
  const auto limits = [&] {
    std::vector<int64_t> out;
    for (const LengthLimit& limit : bench.profile(rows).limits) out.push_back(limit.max_length);
    return out;
  };
  EXPECT_EQ(limits(), (std::vector<int64_t>{32, 64, 128, 256, 512}));  // 40 ... 300 tokens
  bench.options.max_length = 100;
  EXPECT_EQ(limits(), (std::vector<int64_t>{32, 64, 100, 128, 256, 512}));
}

TEST(LengthProfile, ShortRowsOfCsvAreCounted) {
  Bench bench;
  test::Warnings log;
  bench.context.log = &log;
  profile_lengths(*open_memory_source("csv", "text,note\na,b\nc\n", "t.csv"), bench.context, bench.options);
  ASSERT_EQ(log.lines.size(), 1u);
  EXPECT_TRUE(log.lines[0].starts_with("t.csv: 1 of 2 rows has fewer cells")) << log.lines[0];
}

TEST(LengthProfile, BadRowsAreErrorsWithTheirPlace) {
  Bench bench;
  EXPECT_NE(bench.error("").message().find("t.jsonl: holds no rows"), std::string::npos);
  EXPECT_NE(bench.error("{\"text\": \"a\"}\n{\"prompt\": \"a\", \"completion\": \"b\"}\n")
                .message()
                .find("t.jsonl:2"),
            std::string::npos);
  EXPECT_NE(bench.error("{\"chosen\": \"a\", \"rejected\": 5}\n").message().find("'rejected'"),
            std::string::npos);
  EXPECT_NE(bench.error("{\"chosen\": \"a\", \"rejected\": \"b\"}\n{\"chosen\": \"a\"}\n")
                .message()
                .find("t.jsonl:2"),
            std::string::npos);
}

// Rows whose lengths rise, as in a sorted file.
std::string rising_rows(int count) {
  std::string rows;
  uint64_t state = 7;
  const auto draw = [&] { return (state = state * 6364136223846793005u + 1442695040888963407u) >> 33; };
  for (int i = 0; i < count; ++i) {
    rows += fmt::format("{{\"prompt\": \"{}\", \"completion\": \"{}\"}}\n", std::string(draw() % 40, 'p'),
                        std::string(1 + draw() % 9 + static_cast<uint64_t>(i) * 50 / count, 'c'));
  }
  return rows;
}

Packing packing_of(Layout layout) {
  return layout == Layout::bfd         ? Packing::bfd
         : layout == Layout::bfd_split ? Packing::bfd_split
         : layout == Layout::wrapped   ? Packing::wrapped
                                       : Packing::none;
}

// The first epoch of a run with this layout: rows, batches, steps, tokens, padding.
std::array<int64_t, 5> first_epoch(const std::string& rows, Layout layout, PrepareContext context,
                                   const config::TrainingArguments& training) {
  config::DataArguments data = *context.arguments;
  context.arguments = &data;
  context.packing = data.packing = packing_of(layout);
  if (layout == Layout::group_by_length) data.sampling = Sampling::group_by_length;
  data.padding_free = layout == Layout::padding_free || layout == Layout::bfd || layout == Layout::bfd_split;
  const auto stream = batches_in_order(prepare_sft(*open_memory_source("jsonl", rows, "t.jsonl"), context),
                                       train_order(training, data), layout_of(data));
  std::array<int64_t, 5> out{stream->rows(), stream->batches_per_epoch()};
  out[2] = (out[1] + training.gradient_accumulation_steps - 1) / training.gradient_accumulation_steps;
  stream->start_epoch(0);
  for (Batch batch; stream->next(batch);) {
    out[3] += static_cast<int64_t>(batch.input_ids.size());
    out[4] += batch.input_numel - static_cast<int64_t>(batch.input_ids.size());
  }
  return out;
}

// Every number is that of the batches which a run with the same options makes, whatever the threads.
TEST(LengthProfile, IsWhatARunMakes) {
  const std::string rows = rising_rows(1100);
  config::TrainingArguments training;
  training.per_device_train_batch_size = 6;
  training.gradient_accumulation_steps = 2;
  training.seed = 5;
  const auto compare = [&](const config::DataArguments& data, int threads) {
    Bench bench("", threads);
    bench.arguments = data;
    bench.context.seed = static_cast<uint64_t>(training.seed);
    bench.options.max_lengths = {*data.max_length};
    bench.run_as(training);
    const LengthLimit limit = bench.profile(rows).limits[0];
    EXPECT_GT(limit.rows_dropped, 0);
    for (const Layout layout : telemetry::kLayouts) {
      const LayoutCost& cost = limit.layouts[static_cast<size_t>(layout)];
      EXPECT_EQ((std::array{cost.rows, cost.batches, cost.steps, cost.tokens, cost.padding}),
                first_epoch(rows, layout, bench.context, training))
          << layout_name(layout);
    }
  };
  config::DataArguments data;
  data.max_length = 30;
  data.pad_to_multiple_of = 4;
  compare(data, 1);
  data.shuffle_dataset = true;
  compare(data, 3);
  data.dataloader_drop_last = true;
  training.data_seed = 11;
  compare(data, 2);
  data.sampling = Sampling::sequential;
  compare(data, 2);
  data.sampling = Sampling::group_by_length;
  compare(data, 2);
}

TEST(LengthProfile, ASortedFileIsShuffledAsInTraining) {
  const auto padding = [](Sampling sampling) {
    Bench bench;
    bench.arguments.sampling = sampling;
    bench.options.max_lengths = {1000};
    bench.run_as({});
    std::string rows;
    for (int i = 0; i < 1000; ++i) rows += fmt::format("{{\"text\": \"{}\"}}\n", std::string(i, 'x'));
    const LayoutCost cost = bench.profile(rows).limits[0].layouts[0];
    return static_cast<double>(cost.padding) / static_cast<double>(cost.padding + cost.tokens);
  };
  EXPECT_LT(padding(Sampling::sequential), 0.01);
  EXPECT_GT(padding(Sampling::random), 0.40);
}

}  // namespace
}  // namespace trl::data
