#include "data/batch/ordered_batches.h"

#include <algorithm>

namespace trl::data {

const OrderOptions& OrderedBatches::settled() {
  if (options_.rows == 0) options_.rows = rows_.size();
  return options_;
}

int64_t OrderedBatches::longest_row() {
  int64_t longest = 0;
  for (int64_t i = 0; i < rows(); ++i) longest = std::max(longest, length(i));
  return longest;
}

std::optional<LongRow> OrderedBatches::longer_than(int64_t tokens) {
  for (int64_t i = 0; i < rows(); ++i) {
    if (const int64_t own = length(i); own > tokens) return LongRow{{source_row(i)}, own};
  }
  return std::nullopt;
}

void OrderedBatches::start_epoch(int64_t epoch, int64_t skip, std::span<const int64_t> evaluations_before) {
  if (epoch != epoch_)
    order_ = {EpochOrder(settled(), epoch, {}, evaluations_before), options_.prefix_window};
  epoch_ = epoch;
  at_ = std::clamp<int64_t>(skip, 0, order_.size());
}

void OrderedBatches::start_pass(int64_t batch_size) {
  OrderOptions all;
  all.rows = rows();
  all.batch_size = batch_size;
  all.sampling = Sampling::sequential;
  all.may_be_empty = true;
  order_ = {EpochOrder(all, 0), 0};
  epoch_ = -1;
  at_ = 0;
}

bool OrderedBatches::next(HostBatch& out) {
  if (at_ >= order_.size()) return false;
  make(order_.batch(at_, [&](int64_t row) { return beginning(row); }), out);
  ++at_;
  return true;
}

}  // namespace trl::data
