#include "data/batch/batch_stream.h"

#include <algorithm>

#include "base/error.h"
#include "data/batch/prefix_window.h"

namespace trl::data {

namespace {

// Asks for the number of rows, which may require a wait, as late as possible.
class InOrder final : public BatchStream {
 public:
  InOrder(std::unique_ptr<Examples> examples, const OrderOptions& options, const BatchLayout& layout)
      : examples_(std::move(examples)), options_(options), layout_(layout) {}

  int64_t rows() override { return settled().rows; }
  int64_t batches_per_epoch() override { return data::batches_per_epoch(settled()); }
  uint64_t fingerprint() override { return examples_->fingerprint(); }
  int64_t longest_row() override {
    const std::vector<uint32_t> lengths = examples_->lengths();
    return lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
  }
  std::optional<LongRow> longer_than(int64_t tokens) override {
    const std::vector<uint32_t> lengths = examples_->lengths();
    for (size_t i = 0; i < lengths.size(); ++i) {
      if (lengths[i] <= tokens) continue;
      const Example row = examples_->read(static_cast<int64_t>(i));
      const auto longest = std::max_element(row.seq_lengths.begin(), row.seq_lengths.end());
      if (*longest <= tokens) continue;
      const auto place = static_cast<size_t>(longest - row.seq_lengths.begin());
      if (row.source_rows.size() != row.seq_lengths.size()) return LongRow{row.source_rows, *longest};
      return LongRow{{row.source_rows[place]}, *longest};
    }
    return std::nullopt;
  }
  void tell() override { examples_->tell(); }

  void start_epoch(int64_t epoch, int64_t skip, std::span<const int64_t> evaluations_before) override {
    settled();
    if (options_.sampling == Sampling::group_by_length && lengths_.empty()) lengths_ = examples_->lengths();
    if (epoch != epoch_)
      order_ = {EpochOrder(options_, epoch, lengths_, evaluations_before), options_.prefix_window};
    epoch_ = epoch;
    at_ = std::clamp<int64_t>(skip, 0, order_.size());
  }

  bool next(HostBatch& batch) override {
    if (at_ >= order_.size()) return false;
    rows_.clear();
    const auto tokens = [&](int64_t row) { return examples_->read(row).input_ids; };
    for (const int64_t row : order_.batch(at_, tokens)) rows_.push_back(examples_->read(row));
    collate(rows_, layout_, batch);
    ++at_;
    return true;
  }

 private:
  const OrderOptions& settled() {
    if (options_.rows == 0) options_.rows = examples_->size();
    return options_;
  }

  const std::unique_ptr<Examples> examples_;
  OrderOptions options_;
  const BatchLayout layout_;
  std::vector<uint32_t> lengths_;
  WindowedOrder order_;
  int64_t epoch_ = -1;
  int64_t at_ = 0;
  std::vector<Example> rows_;
};

}  // namespace

void BatchStream::start_pass(int64_t) { fail(Status::unsupported, "these rows cannot be read on their own"); }

OrderOptions train_order(const config::TrainingArguments& training, const config::DataArguments& data) {
  OrderOptions order;
  order.batch_size = training.per_device_train_batch_size;
  order.group_batch = order.batch_size * training.gradient_accumulation_steps;
  order.sampling = data.streaming ? Sampling::sequential : data.sampling;
  order.drop_last = data.dataloader_drop_last && !data.streaming;
  const bool grouped = data.sampling == Sampling::group_by_length;
  order.seed = static_cast<uint64_t>(grouped ? training.seed : training.data_seed.value_or(training.seed));
  order.prefix_window = data.share_prefix_window;
  return order;
}

OrderOptions eval_order(const config::TrainingArguments& training, const config::DataArguments& data) {
  OrderOptions order;
  order.batch_size = training.per_device_eval_batch_size;
  order.batch_key = "per_device_eval_batch_size";
  order.sampling =
      data.sampling == Sampling::group_by_length ? Sampling::group_by_length : Sampling::sequential;
  order.group_batch = order.batch_size;
  order.seed = static_cast<uint64_t>(training.data_seed.value_or(training.seed));
  order.own_generator = true;
  order.may_be_empty = true;
  order.drop_last = data.dataloader_drop_last && !data.streaming;
  return order;
}

BatchLayout layout_of(const config::DataArguments& data) {
  return {data.padding_free, data.pad_to_multiple_of.value_or(1)};
}

std::unique_ptr<BatchStream> batches_in_order(std::unique_ptr<Examples> examples, const OrderOptions& options,
                                              const BatchLayout& layout) {
  return std::make_unique<InOrder>(std::move(examples), options, layout);
}

}  // namespace trl::data
