// Turns documents that begin alike into trees of segments in which each common beginning exists once.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "data/batch/batch.h"
#include "data/batch/order.h"

namespace trl::data {

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

// Builds the trees of a batch whose segments have no parents. A token is shared if id, position, label and
// columns are equal, and all tokens before it are shared: its hidden state is then the same in all documents,
// and one label says for each of them whether it is a target. Documents whose labels differ (a turn is an
// answer in one and context in another) branch there, as they would over ids. A document joins the first tree
// that it may, and a tree has the place of its first document.
PrefixTree prefix_tree(const Batch& batch, const TreeLimits& limits);

// Returns the batch laid out as trees; its rows and their numbers stay. none: no token is shared, or its
// segments have parents already.
std::optional<Batch> shared_beginnings(const Batch& batch, const TreeLimits& limits);

using RowBatches = std::vector<std::vector<int64_t>>;
using RowTokens = std::function<std::vector<int32_t>(int64_t row)>;  // the first tokens of the row

// share_prefix_window: moves rows that begin alike, a few batches apart in the order, into one batch. Returns
// the rows of these batches in batches of the same sizes. Rows whose tokens begin alike (as share_prefix:
// auto shares them) go to the batch of the first of them, or to the next batch that has room for all of them;
// if they are more than a batch, rows that share most stay together. Other rows stay in their batch if it has
// room. Within a batch the rows keep their order.
RowBatches brought_together(const RowBatches& batches, const RowTokens& tokens);

// The batches of an epoch, with rows regrouped in each window of that many batches; 0: unchanged.
class WindowedOrder {
 public:
  WindowedOrder() = default;
  WindowedOrder(EpochOrder order, int64_t window) : order_(std::move(order)), window_(window) {}
  int64_t size() const { return order_.size(); }
  std::vector<int64_t> batch(int64_t index, const RowTokens& tokens);

 private:
  EpochOrder order_;
  int64_t window_ = 0, begin_ = -1;
  RowBatches batches_;  // of the window that begins there
};

}  // namespace trl::data
