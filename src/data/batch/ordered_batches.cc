#include "data/batch/ordered_batches.h"

#include <algorithm>

#include "data/prepare/sft.h"

namespace trl::data {

namespace {

// SFT's batches.
class ExampleBatches final : public OrderedBatches {
 public:
  ExampleBatches(std::unique_ptr<Examples> examples, const OrderOptions& options, const BatchLayout& layout)
      : OrderedBatches(options, examples->rows()), examples_(std::move(examples)), layout_(layout) {}

 private:
  std::vector<uint32_t> lengths() const override { return examples_->lengths(); }
  std::optional<LongRow> longer(int64_t row, int64_t tokens) const override {
    const Example example = examples_->read(row);
    const std::vector<int32_t>& documents = example.seq_lengths;
    const auto longest = std::ranges::max_element(documents);
    if (*longest <= tokens) return std::nullopt;
    if (example.source_rows.size() != documents.size()) return LongRow{example.source_rows, *longest};
    return LongRow{{example.source_rows[static_cast<size_t>(longest - documents.begin())]}, *longest};
  }
  std::vector<int32_t> beginning(int64_t row) const override { return examples_->read(row).input_ids; }
  void make(std::span<const int64_t> rows, Batch& out) const override {
    std::vector<Example> examples;
    for (const int64_t row : rows) examples.push_back(examples_->read(row));
    collate(examples, layout_, out);
  }

  const std::unique_ptr<Examples> examples_;
  const BatchLayout layout_;
};

}  // namespace

const OrderOptions& OrderedBatches::settled() {
  if (options_.rows == 0) options_.rows = rows_.size();
  return options_;
}

int64_t OrderedBatches::longest_row() {
  const std::vector<uint32_t> all = lengths();
  return all.empty() ? 0 : *std::ranges::max_element(all);
}

std::optional<LongRow> OrderedBatches::longer_than(int64_t tokens) {
  const std::vector<uint32_t> all = lengths();
  for (size_t row = 0; row < all.size(); ++row) {
    if (all[row] <= tokens) continue;
    if (auto found = longer(static_cast<int64_t>(row), tokens)) return found;
  }
  return std::nullopt;
}

void OrderedBatches::start_epoch(int64_t epoch, int64_t skip, std::span<const int64_t> evaluations_before) {
  settled();
  if (options_.sampling == Sampling::group_by_length && lengths_.empty()) lengths_ = lengths();
  if (epoch != epoch_)
    order_ = {EpochOrder(options_, epoch, lengths_, evaluations_before), options_.prefix_window};
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

bool OrderedBatches::next(Batch& out) {
  if (at_ >= order_.size()) return false;
  make(order_.batch(at_, [&](int64_t row) { return beginning(row); }), out);
  ++at_;
  return true;
}

std::unique_ptr<BatchStream> batches_in_order(std::unique_ptr<Examples> examples, const OrderOptions& options,
                                              const BatchLayout& layout) {
  return std::make_unique<ExampleBatches>(std::move(examples), options, layout);
}

}  // namespace trl::data
