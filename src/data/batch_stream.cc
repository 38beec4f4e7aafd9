#include "data/batch_stream.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/interrupt.h"
#include "data/sft_tokens.h"

namespace trl::data {

namespace {

// The number of rows, which may have to be waited for, is asked for as late as can be.
class InOrder final : public BatchStream {
 public:
  InOrder(std::unique_ptr<Examples> examples, const OrderOptions& options, const BatchLayout& layout)
      : examples_(std::move(examples)), options_(options), layout_(layout) {}

  int64_t rows() override { return settled().rows; }
  int64_t batches_per_epoch() override { return data::batches_per_epoch(settled()); }
  uint64_t fingerprint() override { return examples_->fingerprint(); }
  void tell() override { examples_->tell(); }

  void start_epoch(int64_t epoch, int64_t skip, std::span<const int64_t> evaluations_before) override {
    settled();
    if (options_.sampling == Sampling::group_by_length && lengths_.empty()) lengths_ = examples_->lengths();
    if (epoch != epoch_) order_ = EpochOrder(options_, epoch, lengths_, evaluations_before);
    epoch_ = epoch;
    at_ = std::clamp<int64_t>(skip, 0, order_.size());
  }

  bool next(HostBatch& batch) override {
    if (at_ >= order_.size()) return false;
    rows_.clear();
    for (const int64_t row : order_.batch(at_)) rows_.push_back(examples_->read(row));
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
  EpochOrder order_;
  int64_t epoch_ = -1;
  int64_t at_ = 0;
  std::vector<Example> rows_;
};

// A source of JSON rows, block by block.
class AsRead final : public BatchStream {
 public:
  AsRead(std::unique_ptr<Source> source, const PrepareContext& context, int64_t batch_size,
         const BatchLayout& layout)
      : source_(std::move(source)),
        arguments_(*context.arguments),
        context_(context),
        batch_size_(batch_size),
        layout_(layout) {
    context_.arguments = &arguments_;
  }

  int64_t rows() override { return -1; }
  int64_t batches_per_epoch() override { return -1; }
  uint64_t fingerprint() override { return 0; }
  void tell() override {
    if (std::exchange(reported_, true) || counts_.read == 0) return;
    counts_.report(source_->name() + " (as far as it was read)", arguments_, *context_.log);
  }

  void start_epoch(int64_t, int64_t skip, std::span<const int64_t>) override {
    source_->rewind();
    counts_ = {};
    ready_.clear();
    at_ = 0;
    read_ = 0;
    ended_ = false;
    for (; skip > 0 && !next_rows().empty(); --skip) {
    }
  }

  bool next(HostBatch& batch) override {
    const std::vector<Example> rows = next_rows();
    if (rows.empty()) return false;
    collate(rows, layout_, batch);
    return true;
  }

 private:
  std::vector<Example> next_rows() {
    std::vector<Example> rows;
    while (static_cast<int64_t>(rows.size()) < batch_size_) {
      if (at_ == ready_.size() && !read_block()) break;
      rows.push_back(std::move(ready_[at_++]));
    }
    return rows;
  }

  // false: the end. A block may keep no row, so more than one may be read.
  bool read_block() {
    ready_.clear();
    at_ = 0;
    while (ready_.empty() && !ended_) {
      std::vector<RowText> block;
      std::vector<int64_t> numbers;
      RowText row;
      while (static_cast<int64_t>(block.size()) < kPackingBlockRows) {
        base::poll();
        if (!source_->next_text(row)) {
          ended_ = true;
          break;
        }
        block.push_back(std::move(row));
        numbers.push_back(read_++);
      }
      if (block.empty()) break;
      if (!tokens_) tokens_ = std::make_unique<SftTokens>(context_, parse_row(block.front()));
      ready_ = tokens_->prepare(block, numbers, false, counts_);
    }
    if (ended_ && ready_.empty()) finish();
    return !ready_.empty();
  }

  void finish() {
    counts_.check(source_->name(), arguments_);
    if (std::exchange(reported_, true)) return;
    counts_.report(source_->name(), arguments_, *context_.log);
  }

  const std::unique_ptr<Source> source_;
  const config::SftDataArguments arguments_;
  PrepareContext context_;
  const int64_t batch_size_;
  const BatchLayout layout_;
  std::unique_ptr<const SftTokens> tokens_;
  Counts counts_;
  std::vector<Example> ready_;
  size_t at_ = 0;
  int64_t read_ = 0;
  bool ended_ = false;
  bool reported_ = false;
};

}  // namespace

OrderOptions train_order(const config::TrainingArguments& training, const config::SftDataArguments& data) {
  OrderOptions order;
  order.batch_size = training.per_device_train_batch_size;
  order.group_batch = order.batch_size * training.gradient_accumulation_steps;
  order.sampling = data.streaming ? Sampling::sequential : data.sampling;
  order.drop_last = data.dataloader_drop_last && !data.streaming;
  const bool grouped = data.sampling == Sampling::group_by_length;
  order.seed = static_cast<uint64_t>(grouped ? training.seed : training.data_seed.value_or(training.seed));
  return order;
}

OrderOptions eval_order(const config::TrainingArguments& training, const config::SftDataArguments& data) {
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

BatchLayout layout_of(const config::SftDataArguments& data) {
  return {data.padding_free, data.pad_to_multiple_of.value_or(1)};
}

std::unique_ptr<BatchStream> batches_in_order(std::unique_ptr<Examples> examples, const OrderOptions& options,
                                              const BatchLayout& layout) {
  return std::make_unique<InOrder>(std::move(examples), options, layout);
}

std::unique_ptr<BatchStream> batches_as_read(std::unique_ptr<Source> source, const PrepareContext& context,
                                             int64_t batch_size, const BatchLayout& layout) {
  return std::make_unique<AsRead>(std::move(source), context, batch_size, layout);
}

}  // namespace trl::data
