// share_prefix_window: moves rows that begin alike, a few batches apart in the order, into one batch.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "data/batch/order.h"

namespace trl::data {

using RowBatches = std::vector<std::vector<int64_t>>;
using RowTokens = std::function<std::vector<int32_t>(int64_t row)>;  // the first tokens of the row

// Returns the rows of these batches in batches of the same sizes. Rows whose tokens begin alike (as
// share_prefix: auto shares them) go to the batch of the first of them, or to the next batch that has room
// for all of them; if they are more than a batch, rows that share most stay together. Other rows stay in
// their batch if it has room. Within a batch the rows keep their order.
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
