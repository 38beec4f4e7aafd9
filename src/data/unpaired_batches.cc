#include "data/unpaired_batches.h"

#include <algorithm>

#include "data/ordered_batches.h"

namespace trl::data {

namespace {

class UnpairedBatches final : public OrderedBatches {
 public:
  UnpairedBatches(std::unique_ptr<UnpairedList> list, const OrderOptions& order, const BatchLayout& layout,
                  const Truncation& truncation, int64_t group)
      : OrderedBatches(order, list->rows()),
        list_(std::move(list)),
        layout_(layout),
        truncation_(truncation),
        group_(group) {}

 private:
  std::vector<std::vector<int32_t>> others(std::span<const int64_t> rows) const {
    if (group_ == 0) return {};
    return kl_completions(*list_, rows, group_);
  }

  int64_t length(int64_t row) const override {
    const UnpairedExample example = (*list_)[row];
    size_t longest = example.completion_ids.size();
    for (const std::vector<int32_t>& other : others({&row, 1})) longest = std::max(longest, other.size());
    const auto length = static_cast<int64_t>(example.prompt_ids.size() + longest);
    return std::min(length, truncation_.max_length.value_or(length));
  }

  std::vector<int32_t> beginning(int64_t row) const override { return (*list_)[row].prompt_ids; }

  void make(std::span<const int64_t> rows, HostBatch& out) const override {
    UnpairedBatch batch = unpaired_batch(list_->gather(rows), others(rows), truncation_);
    HostBatch counted;
    collate(batch.rows, layout_, counted);
    batch.rows.insert(batch.rows.end(), batch.kl.begin(), batch.kl.end());
    collate(batch.rows, layout_, out);
    out.rows = counted.rows;
    out.width = counted.width;
    out.elements = counted.elements;
    out.counted_tokens = counted.counted_tokens;
    out.real_tokens = counted.real_tokens;
    out.row_ids = std::move(counted.row_ids);
    std::vector<float> labels(batch.label.begin(), batch.label.end());
    if (group_ != 0) labels.insert(labels.end(), batch.label.begin(), batch.label.end());
    out.columns.emplace_back("label", std::move(labels));
  }

  const std::unique_ptr<UnpairedList> list_;
  const BatchLayout layout_;
  const Truncation truncation_;
  const int64_t group_;
};

}  // namespace

std::unique_ptr<BatchStream> batches_of_unpaired(std::unique_ptr<UnpairedList> list,
                                                 const OrderOptions& order, const BatchLayout& layout,
                                                 const Truncation& truncation, int64_t group) {
  return std::make_unique<UnpairedBatches>(std::move(list), order, layout, truncation, group);
}

}  // namespace trl::data
