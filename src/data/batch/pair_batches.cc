#include "data/batch/pair_batches.h"

#include <algorithm>

#include "data/batch/ordered_batches.h"

namespace trl::data {

namespace {

void collate_pairs(const std::vector<PreferenceExample>& pairs, const BatchLayout& layout,
                   const Truncation& truncation, HostBatch& out) {
  const PreferenceBatch batch = preference_batch(pairs, truncation);
  collate(batch.rows, layout, out);
  out.row_ids.resize(pairs.size());  // the first half's; those of the second are equal
  if (batch.margin.empty()) return;
  std::vector<float> margins = batch.margin;
  margins.insert(margins.end(), batch.margin.begin(), batch.margin.end());
  out.columns.emplace_back("margin", std::move(margins));
}

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

  int64_t source_row(int64_t row) const override { return (*pairs_)[row].source_row; }

  std::vector<int32_t> beginning(int64_t row) const override {
    PreferenceExample pair = (*pairs_)[row];
    const auto same = std::mismatch(pair.chosen_ids.begin(), pair.chosen_ids.end(), pair.rejected_ids.begin(),
                                    pair.rejected_ids.end());
    pair.prompt_ids.insert(pair.prompt_ids.end(), pair.chosen_ids.begin(), same.first);
    return std::move(pair.prompt_ids);
  }

  void make(std::span<const int64_t> rows, HostBatch& out) const override {
    collate_pairs(pairs_->gather(rows), layout_, truncation_, out);
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

StreamedRows streamed_pairs(decltype(dpo_kind)& kind, const BatchLayout& layout,
                            const Truncation& truncation) {
  return {&kind, [layout, truncation](const std::vector<std::string>& records, HostBatch& out) {
            std::vector<PreferenceExample> pairs;
            for (const std::string& record : records) pairs.push_back(example_of<PreferenceExample>(record));
            collate_pairs(pairs, layout, truncation, out);
          }};
}

}  // namespace trl::data
