// Documents that begin alike as trees: what a tree looks like, and that each document can be read off it.
#include "data/batch/prefix_tree.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace trl::data::prefix_tree_test {
namespace {

using Ids = std::vector<int32_t>;

struct Document {
  Ids input_ids, labels = {};  // none: the ids
};

struct Rows : Batch {
  explicit Rows(const std::vector<Document>& documents) {
    cu_seqlens.push_back(0);
    for (const Document& d : documents) {
      const Ids& of_d = d.labels.empty() ? d.input_ids : d.labels;
      input_ids.insert(input_ids.end(), d.input_ids.begin(), d.input_ids.end());
      labels.insert(labels.end(), of_d.begin(), of_d.end());
      for (size_t i = 0; i < d.input_ids.size(); ++i) position_ids.push_back(static_cast<int32_t>(i));
      cu_seqlens.push_back(static_cast<int32_t>(input_ids.size()));
    }
  }
  PrefixTree tree(const TreeLimits& limits = {}) const { return prefix_tree(*this, limits); }
  Ids ids_of(const PrefixTree& tree) const {
    Ids out;
    for (const int32_t place : tree.tokens) out.push_back(input_ids[static_cast<size_t>(place)]);
    return out;
  }
};

TEST(PrefixTree, HasEachCommonBeginningOnce) {
  const Rows rows({{{1, 2, 3, 4}}, {{5, 6}}, {{1, 2, 7}}, {{1, 2, 3, 8}}, {{1, 2}}, {{5, 6}}});
  const PrefixTree tree = rows.tree();
  EXPECT_EQ(rows.ids_of(tree), (Ids{1, 2, 3, 4, 8, 7, 5, 6}));
  EXPECT_EQ(tree.cu_seqlens, (Ids{0, 2, 3, 4, 5, 6, 8}));
  EXPECT_EQ(tree.parents, (Ids{-1, 0, 1, 1, 0, -1}));
  EXPECT_EQ(tree.ends, (Ids{2, 5, 4, 3, 0, 5}));
}

TEST(PrefixTree, IsTheRowsWhereNothingIsCommon) {
  const Rows rows({{{1, 2}}, {{2, 1}}, {{}}, {{3}}, {{}}});
  const PrefixTree tree = rows.tree();
  EXPECT_EQ(rows.ids_of(tree), rows.input_ids);
  EXPECT_EQ(tree.cu_seqlens, rows.cu_seqlens);
  EXPECT_EQ(tree.parents, (Ids{-1, -1, -1, -1, -1}));
  EXPECT_EQ(tree.ends, (Ids{0, 1, 2, 3, 4}));
  EXPECT_TRUE(Rows({}).tree().parents.empty());
}

TEST(PrefixTree, PartsWhereLabelsOrPositionsPart) {
  EXPECT_EQ(Rows({{{1, 2, 3}, {-100, 2, 3}}, {{1, 2, 3}, {-100, -100, 3}}}).tree().tokens,
            (Ids{0, 1, 2, 4, 5}));
  Rows rows({{{1, 2, 3}}, {{1, 2, 3}}});
  rows.position_ids = {0, 1, 2, 0, 1, 7};
  EXPECT_EQ(rows.tree().tokens, (Ids{0, 1, 2, 5}));
}

// A common beginning whose tokens have other values in one of the documents is not common.
TEST(PrefixTree, PartsWhereColumnsPart) {
  Rows rows({{{1, 2, 3}}, {{1, 2, 3}}, {{1, 2, 4}}});
  rows.row_ids = {5, 6, 7};
  rows.columns["label"] = {1, 0, 1};
  rows.token_columns["advantage"] = {0, .5, 1, 0, .5, 2, 0, .5, 3};
  const std::optional<Batch> shared = shared_beginnings(rows, {});
  ASSERT_TRUE(shared);
  EXPECT_EQ(shared->input_ids, (Ids{1, 2, 3, 3, 4}));
  EXPECT_EQ(shared->labels, shared->input_ids);
  EXPECT_EQ(shared->position_ids, (Ids{0, 1, 2, 2, 2}));
  EXPECT_EQ(shared->token_columns.at("advantage"), (std::vector<float>{0, .5, 1, 2, 3}));
  EXPECT_EQ(shared->sequences, (Ids{1, 2, 3}));
  EXPECT_EQ(shared->columns, rows.columns);
  EXPECT_EQ(shared->row_ids, rows.row_ids);
  EXPECT_FALSE(shared_beginnings(*shared, {})) << "it has parents";
  rows.token_columns["advantage"] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_FALSE(shared_beginnings(rows, {}));
}

TEST(PrefixTree, StaysWithinItsLimits) {
  const Rows rows({{{1, 2, 3, 4}}, {{1, 2, 3, 5}}, {{1, 6}}, {{1, 2, 3, 7}}});
  EXPECT_EQ(rows.tree({2}).parents, (Ids{-1, 0, 0, 0, -1}));
  EXPECT_EQ(rows.tree({4}).parents, (Ids{-1, -1, -1, -1}));
  EXPECT_EQ(rows.tree({1, 0.75}).parents, (Ids{-1, 0, 0, 0, -1}));
  EXPECT_EQ(rows.tree({1, 0.8}).parents, (Ids{-1, -1, -1, -1}));
  EXPECT_EQ(rows.tree({1, 0, 5}).ends, (Ids{1, 2, 4, 5}));  // the last two share one token in a second tree
  EXPECT_EQ(rows.tree({1, 0, 4}).parents, (Ids{-1, -1, -1, -1}));
}

// What each document is by a tree.
std::vector<std::pair<Ids, Ids>> documents_of(const Rows& rows, const PrefixTree& tree) {
  std::vector<std::pair<Ids, Ids>> documents;
  for (int32_t segment : tree.ends) {
    auto& [ids, labels] = documents.emplace_back();
    for (; segment >= 0; segment = tree.parents[static_cast<size_t>(segment)]) {
      const auto at = static_cast<size_t>(segment);
      Ids own_ids, own_labels;
      for (int32_t i = tree.cu_seqlens[at]; i < tree.cu_seqlens[at + 1]; ++i) {
        const auto place = static_cast<size_t>(tree.tokens[static_cast<size_t>(i)]);
        own_ids.push_back(rows.input_ids[place]);
        own_labels.push_back(rows.labels[place]);
      }
      ids.insert(ids.begin(), own_ids.begin(), own_ids.end());
      labels.insert(labels.begin(), own_labels.begin(), own_labels.end());
    }
  }
  return documents;
}

void expect_depth_first(const PrefixTree& tree) {
  Ids path;
  for (size_t s = 0; s < tree.parents.size(); ++s) {
    while (!path.empty() && path.back() != tree.parents[s]) path.pop_back();
    EXPECT_TRUE(tree.parents[s] == -1 || !path.empty()) << s;
    path.push_back(static_cast<int32_t>(s));
  }
}

TEST(PrefixTree, HoldsEveryDocument) {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    std::vector<Document> documents(random() % 9);
    for (Document& d : documents) {
      for (size_t i = random() % 12; i > 0; --i) {
        d.input_ids.push_back(static_cast<int32_t>(random() % 2));
        d.labels.push_back(random() % 8 == 0 ? -100 : d.input_ids.back());
      }
    }
    const Rows rows(documents);
    const int64_t least = 1 + static_cast<int64_t>(random() % 3);
    const PrefixTree tree = rows.tree({least, 0, random() % 2 == 0 ? 20 : INT64_MAX});
    expect_depth_first(tree);
    const auto got = documents_of(rows, tree);
    ASSERT_EQ(got.size(), documents.size());
    for (size_t d = 0; d < got.size(); ++d)
      EXPECT_EQ(got[d], std::pair(documents[d].input_ids, documents[d].labels));
    EXPECT_LE(tree.tokens.size(), rows.input_ids.size());
  }
}

}  // namespace
}  // namespace trl::data::prefix_tree_test
