// What labels come to as targets, in documents and in trees of segments, and in a part of a batch.
#include "train/batches/targets.h"

#include <gtest/gtest.h>

namespace trl::train::targets_test {
namespace {

using Ids = std::vector<int32_t>;

void expect_targets(const Targets& got, const Ids& rows, const Ids& tokens, const Ids& sequences) {
  EXPECT_EQ(got.tokens.rows, rows);
  EXPECT_EQ(got.tokens.tokens, tokens);
  EXPECT_EQ(got.sequences, sequences);
}

data::Batch labelled(const Ids& labels, const Ids& sequences = {}) {
  data::Batch batch;
  batch.labels = labels;
  batch.sequences = sequences;
  return batch;
}

TEST(Targets, StayInsideEachDocument) {
  const kernels::Segments segments{{0, 3, 3, 4, 8}, 4};
  data::Batch batch = labelled({1, 2, 3, 4, -100, 6, -100, 8});
  batch.token_columns["value"] = {0, .1F, .2F, .3F, .4F, .5F, .6F, .7F};
  const Targets targets = targets_of(batch, segments);
  expect_targets(targets, {0, 1, 4, 6}, {2, 3, 6, 8}, {0, 0, 3, 3});
  EXPECT_EQ(targets.columns.at("value"), (std::vector<float>{.1F, .2F, .5F, .7F}));
  EXPECT_EQ(count_labels(batch, segments), (Ids{3, 0, 1, 2}));
  EXPECT_EQ(targets_of(labelled({}), {{0}, 0}).size(), 0);
}

// [1 2 3] with the answers [4 5] and [6], and [7] after the first of them; all three are sequences, and the
// prompt by itself is one twice.
TEST(Targets, OfATreeCountForEachSequence) {
  kernels::Segments segments{{0, 3, 5, 6, 7}, 3};
  segments.prefix = {-1, 0, 0, 1};
  const Ids ends = {1, 2, 3, 0, 0};
  const data::Batch batch = labelled({1, -100, 3, 4, 5, 6, 7}, ends);
  expect_targets(targets_of(batch, segments), {1, 1, 1, 1, 1, 2, 2, 2, 3, 3, 4},
                 {3, 3, 3, 3, 3, 4, 6, 4, 5, 5, 7}, {0, 1, 2, 3, 4, 0, 1, 2, 0, 2, 2});
  EXPECT_EQ(count_labels(batch, segments), (Ids{4, 3, 5, 2, 2}));
  EXPECT_EQ(count_tokens(segments, ends), (Ids{5, 4, 6, 3, 3}));
  EXPECT_EQ(count_sequences(segments, ends), (Ids{5, 2, 1, 1}));
}

// A sequence is the same in a tree, alone, and after others; what comes after its last target does not
// matter, and which tokens are targets does.
TEST(Targets, DigestsAreOfWhatASequenceHolds) {
  const auto digests = [](const Ids& ids, const Ids& labels, const kernels::Segments& segments,
                          const Ids& ends, int64_t count) {
    return digests_of(targets_of(labelled(labels, ends), segments), segments, ids.data(), count);
  };
  kernels::Segments tree{{0, 3, 5, 6}, 3};
  tree.prefix = {-1, 0, 0};
  const Ids ids = {1, 2, 3, 4, 5, 6}, labels = {-100, -100, -100, 4, 5, 6};
  const auto in_tree = digests(ids, labels, tree, {1, 2}, 2);
  const Ids apart = {9, 9, 1, 2, 3, 6, 1, 2, 3, 4, 5, 8},
            answers = {-100, -100, -100, -100, -100, 6, -100, -100, -100, 4, 5, -100};
  const auto alone = digests(apart, answers, {{0, 2, 6, 12}, 6}, {}, 3);
  EXPECT_EQ(alone[0], 0u);
  EXPECT_EQ(alone[1], in_tree[1]);
  EXPECT_EQ(alone[2], in_tree[0]);
  EXPECT_NE(in_tree[0], in_tree[1]);
  const Ids all = {-100, 2, 3, 4, 5, 6};
  EXPECT_NE(digests(ids, all, tree, {1, 2}, 2)[0], in_tree[0]);
}

TEST(Targets, OfAPartBeginAtItsFirstRow) {
  const Targets all{{{0, 2, 2, 5, 6}, {10, 11, 12, 13, 14}}, {0, 0, 1, 1, 2}, {{"value", {1, 2, 3, 4, 5}}}};
  expect_targets(part_of(all, 2, 4), {0, 0, 3}, {11, 12, 13}, {0, 1, 1});
  EXPECT_EQ(part_of(all, 2, 4).columns.at("value"), (std::vector<float>{2, 3, 4}));
  expect_targets(part_of(all, 3, 2), {}, {}, {});
  expect_targets(part_of(all, 0, 7), all.tokens.rows, all.tokens.tokens, all.sequences);
}

}  // namespace
}  // namespace trl::train::targets_test
