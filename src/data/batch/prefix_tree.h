// Turns documents that begin alike into trees of segments in which each common beginning exists once.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace trl::data {

// Tokens of concatenated documents; all members but the last are [tokens].
struct TokenRows {
  const int32_t* input_ids;
  const int32_t* labels;
  const int32_t* position_ids;
  std::span<const int32_t> cu_seqlens;  // [documents + 1]
};

struct TreeLimits {
  int64_t least = 1;         // the fewest tokens that a document shares with the tree it joins
  double share = 0;          // the smallest share of the document that these tokens are
  int64_t most = INT64_MAX;  // tokens of a tree of several documents
};

// The shortest common beginning that is worth sharing (share_prefix: auto). A few tokens, such as those that
// begin every chat, do not make up for a tree of rows, whose attention is divided among fewer threads.
inline constexpr TreeLimits kWorthwhile{16, 1.0 / 16};

// Segments in depth-first order: a segment attends to itself, its parent, and all that its parent attends to.
struct PrefixTree {
  std::vector<int32_t> tokens;      // [remaining tokens], the place of each in the rows
  std::vector<int32_t> cu_seqlens;  // [segments + 1]
  std::vector<int32_t> parents;     // [segments]; -1: none
  std::vector<int32_t> ends;        // [documents], the last segment of each
};

// Builds the trees. A token is shared if id, position and label are equal, and all tokens before it are
// shared: its hidden state is then the same in all documents, and one label says for each of them whether it
// is a target. Documents whose labels differ (a turn is an answer in one and context in another) branch
// there, as they would over ids. A document joins the first tree that it may, and a tree has the place of its
// first document.
PrefixTree prefix_tree(const TokenRows& rows, const TreeLimits& limits);

}  // namespace trl::data
