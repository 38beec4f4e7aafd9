#include "data/pair_batches.h"

#include <algorithm>

namespace trl::data {

namespace {

int64_t length_of(const PreferenceExample& pair, const Truncation& truncation) {
  const size_t longest = std::max(pair.chosen_ids.size(), pair.rejected_ids.size());
  const auto length = static_cast<int64_t>(pair.prompt_ids.size() + longest);
  return std::min(length, truncation.max_length.value_or(length));
}

class PairBatches final : public BatchStream {
 public:
  PairBatches(std::unique_ptr<PreferenceList> pairs, const OrderOptions& order, const BatchLayout& layout,
              const Truncation& truncation)
      : pairs_(std::move(pairs)), options_(order), layout_(layout), truncation_(truncation) {}

  int64_t rows() override { return settled().rows; }
  int64_t batches_per_epoch() override { return data::batches_per_epoch(settled()); }
  uint64_t fingerprint() override { return pairs_->rows().fingerprint(); }
  int64_t longest_row() override {
    int64_t longest = 0;
    for (int64_t i = 0; i < pairs_->size(); ++i)
      longest = std::max(longest, length_of((*pairs_)[i], truncation_));
    return longest;
  }
  void tell() override { pairs_->rows().tell(); }

  void start_epoch(int64_t epoch, int64_t skip, std::span<const int64_t> evaluations_before) override {
    if (epoch != epoch_) order_ = EpochOrder(settled(), epoch, {}, evaluations_before);
    epoch_ = epoch;
    at_ = std::clamp<int64_t>(skip, 0, order_.size());
  }

  bool next(HostBatch& out) override {
    if (at_ >= order_.size()) return false;
    const std::vector<int64_t> rows = order_.batch(at_++);
    const PreferenceBatch batch = preference_batch(pairs_->gather(rows), truncation_);
    collate(batch.rows, layout_, out);
    out.row_ids.resize(rows.size());  // of the first half: the second has the same
    return true;
  }

 private:
  // The number of rows, which may have to be waited for, is asked for as late as can be.
  const OrderOptions& settled() {
    if (options_.rows == 0) options_.rows = pairs_->size();
    return options_;
  }

  const std::unique_ptr<PreferenceList> pairs_;
  OrderOptions options_;
  const BatchLayout layout_;
  const Truncation truncation_;
  EpochOrder order_;
  int64_t epoch_ = -1, at_ = 0;
};

}  // namespace

std::unique_ptr<BatchStream> batches_of_pairs(std::unique_ptr<PreferenceList> pairs,
                                              const OrderOptions& order, const BatchLayout& layout,
                                              const Truncation& truncation) {
  return std::make_unique<PairBatches>(std::move(pairs), order, layout, truncation);
}

}  // namespace trl::data
