// The layout of micro-batches, against what TRL's collator gave.
#include "data/batch/collate.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "data/flat_batch.h"
#include "padded_batch.h"
#include "support/golden.h"

namespace trl::data {
namespace {

// Row i is source row 100 + i.
std::vector<Example> examples_of(const base::Json& rows) {
  std::vector<Example> out;
  for (const base::Json& row : rows) {
    Example& example = out.emplace_back();
    example.input_ids = row["input_ids"].get<std::vector<int32_t>>();
    example.labels = row["labels"].get<std::vector<int32_t>>();
    example.seq_lengths = row.contains("seq_lengths")
                              ? row["seq_lengths"].get<std::vector<int32_t>>()
                              : std::vector<int32_t>{static_cast<int32_t>(example.input_ids.size())};
    example.source_rows = {99 + static_cast<int64_t>(out.size())};
  }
  return out;
}

TEST(Collate, EqualsTrlsCollator) {
  TRL_NEED_GOLDEN("data/prepared/collators.json");
  int padded = 0, padding_free = 0;
  const base::Json file = test::golden_json("data/prepared/collators.json");
  for (const base::Json& item : file["cases"]) {
    if (item["collator"] != "sft") continue;
    const std::vector<Example> examples = examples_of(item["examples"]);
    const base::Json& multiple = item["kwargs"]["pad_to_multiple_of"];
    const BatchLayout layout{item["kwargs"]["padding_free"],
                             multiple.is_null() ? 1 : multiple.get<int64_t>()};
    const int32_t pad_id = item["kwargs"]["pad_token_id"];
    const base::Json& want = item["batch"];
    Batch batch;
    collate(examples, layout, batch);
    if (layout.padding_free) {
      expect_flat(batch, pad_id, want);
      ++padding_free;
      continue;
    }
    const PaddedBatch got = pad(examples, pad_id, layout.pad_to_multiple_of);
    EXPECT_EQ(got.width, static_cast<int64_t>(want["input_ids"][0].size()));
    EXPECT_EQ(got.input_ids, flat(want["input_ids"]));
    EXPECT_EQ(got.labels, flat(want["labels"]));
    EXPECT_EQ(got.attention_mask, flat(want["attention_mask"]));
    EXPECT_EQ(batch.width, got.width);
    EXPECT_EQ(batch.rows, got.rows);
    EXPECT_EQ(batch.num_tokens, std::count(got.attention_mask.begin(), got.attention_mask.end(), 1));
    ++padded;
  }
  EXPECT_EQ(padded, 6);
  EXPECT_EQ(padding_free, 6);
}

TEST(Collate, LaysRowsOneBehindTheOther) {
  const auto examples = examples_of(base::parse_json(
      R"([{"input_ids":[5,6],"labels":[5,-100]},{"input_ids":[1,2,3],"labels":[-100,2,3]}])", "rows"));
  Batch batch;
  batch.row_ids = {7};  // what an earlier batch left
  collate(examples, {}, batch);
  EXPECT_EQ(batch.input_ids, (std::vector<int32_t>{5, 6, 1, 2, 3}));
  EXPECT_EQ(batch.labels, (std::vector<int32_t>{5, -100, -100, 2, 3}));
  EXPECT_EQ(batch.position_ids, (std::vector<int32_t>{0, 1, 0, 1, 2}));
  EXPECT_EQ(batch.cu_seqlens, (std::vector<int32_t>{0, 2, 5}));
  EXPECT_EQ(batch.row_ids, (std::vector<int64_t>{100, 101}));
  EXPECT_EQ(batch.num_tokens, 5);
  EXPECT_EQ(batch.rows, 2);
  EXPECT_EQ(batch.width, 3);
  EXPECT_EQ(batch.input_numel, 6);
}

TEST(Collate, DocumentsOfAPackedRow) {
  Example packed;
  packed.input_ids = packed.labels = {1, 2, 3, 4, 5, 6};
  packed.seq_lengths = {2, 1, 3};
  packed.source_rows = {4, 9, 2};
  Batch batch;
  collate({&packed, 1}, {.padding_free = true, .pad_to_multiple_of = 4}, batch);
  EXPECT_EQ(batch.labels, (std::vector<int32_t>{-100, 2, -100, -100, 5, 6}));
  EXPECT_EQ(batch.position_ids, (std::vector<int32_t>{0, 1, 0, 0, 1, 2}));
  EXPECT_EQ(batch.cu_seqlens, (std::vector<int32_t>{0, 2, 3, 6}));
  EXPECT_EQ(batch.row_ids, (std::vector<int64_t>{4, 9, 2}));
  EXPECT_EQ(batch.rows, 1);
  EXPECT_EQ(batch.input_numel, 8);
  EXPECT_EQ(batch.width, 8);
  EXPECT_EQ(batch.num_tokens, 8);
}

}  // namespace
}  // namespace trl::data
