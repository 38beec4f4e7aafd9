#include "data/pair_batches.h"

#include <algorithm>

#include "data/ordered_batches.h"

namespace trl::data {

namespace {

class PairBatches final : public OrderedBatches {
 public:
  PairBatches(std::unique_ptr<PreferenceList> pairs, const OrderOptions& order, const BatchLayout& layout,
              const Truncation& truncation)
      : OrderedBatches(order, pairs->rows()),
        pairs_(std::move(pairs)),
        layout_(layout),
        truncation_(truncation) {}

 private:
  int64_t length(int64_t row) const override {
    const PreferenceExample pair = (*pairs_)[row];
    const size_t longest = std::max(pair.chosen_ids.size(), pair.rejected_ids.size());
    const auto length = static_cast<int64_t>(pair.prompt_ids.size() + longest);
    return std::min(length, truncation_.max_length.value_or(length));
  }

  std::vector<int32_t> beginning(int64_t row) const override {
    PreferenceExample pair = (*pairs_)[row];
    const auto same = std::mismatch(pair.chosen_ids.begin(), pair.chosen_ids.end(), pair.rejected_ids.begin(),
                                    pair.rejected_ids.end());
    pair.prompt_ids.insert(pair.prompt_ids.end(), pair.chosen_ids.begin(), same.first);
    return std::move(pair.prompt_ids);
  }

  void make(std::span<const int64_t> rows, HostBatch& out) const override {
    const PreferenceBatch batch = preference_batch(pairs_->gather(rows), truncation_);
    collate(batch.rows, layout_, out);
    out.row_ids.resize(rows.size());  // of the first half: the second has the same
    if (!batch.margin.empty()) {
      std::vector<float> margins = batch.margin;
      margins.insert(margins.end(), batch.margin.begin(), batch.margin.end());
      out.columns.emplace_back("margin", std::move(margins));
    }
  }

  const std::unique_ptr<PreferenceList> pairs_;
  const BatchLayout layout_;
  const Truncation truncation_;
};

}  // namespace

std::unique_ptr<BatchStream> batches_of_pairs(std::unique_ptr<PreferenceList> pairs,
                                              const OrderOptions& order, const BatchLayout& layout,
                                              const Truncation& truncation) {
  return std::make_unique<PairBatches>(std::move(pairs), order, layout, truncation);
}

}  // namespace trl::data
