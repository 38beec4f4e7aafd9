#include "data/batch/unpaired_batches.h"

#include <algorithm>

#include "data/batch/ordered_batches.h"

namespace trl::data {

namespace {

// others: the completions of other rows, or empty.
void collate_unpaired(const std::vector<UnpairedExample>& examples,
                      const std::vector<std::vector<int32_t>>& others, const BatchLayout& layout,
                      const Truncation& truncation, HostBatch& out) {
  UnpairedBatch batch = unpaired_batch(examples, others, truncation);
  HostBatch counted;
  collate(batch.rows, layout, counted);
  batch.rows.insert(batch.rows.end(), batch.kl.begin(), batch.kl.end());
  collate(batch.rows, layout, out);
  out.rows = counted.rows;
  out.width = counted.width;
  out.elements = counted.elements;
  out.counted_tokens = counted.counted_tokens;
  out.real_tokens = counted.real_tokens;
  out.row_ids = std::move(counted.row_ids);
  std::vector<float> labels(batch.label.begin(), batch.label.end());
  if (!others.empty()) labels.insert(labels.end(), batch.label.begin(), batch.label.end());
  out.columns.emplace_back("label", std::move(labels));
}

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

  int64_t source_row(int64_t row) const override { return (*list_)[row].source_row; }

  std::vector<int32_t> beginning(int64_t row) const override { return (*list_)[row].prompt_ids; }

  void make(std::span<const int64_t> rows, HostBatch& out) const override {
    collate_unpaired(list_->gather(rows), others(rows), layout_, truncation_, out);
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

StreamedRows streamed_unpaired(const BatchLayout& layout, const Truncation& truncation, bool kl) {
  return {kto_kind, [layout, truncation, kl](const std::vector<std::string>& records, HostBatch& out) {
            std::vector<UnpairedExample> examples;
            for (const std::string& record : records) examples.push_back(example_of<UnpairedExample>(record));
            std::vector<std::vector<int32_t>> others;
            for (size_t i = 0; kl && i < examples.size(); ++i)
              others.push_back(examples[i > 0 ? i - 1 : examples.size() - 1].completion_ids);
            collate_unpaired(examples, others, layout, truncation, out);
          }};
}

}  // namespace trl::data
