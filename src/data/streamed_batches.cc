// Batches of rows as they are read (batches_as_read of batch_stream.h).
#include <algorithm>

#include "base/error.h"
#include "base/interrupt.h"
#include "data/batch_stream.h"
#include "data/sft_tokens.h"
#include "data/stream_shuffle.h"

namespace trl::data {

namespace {

struct NumberedRow {
  RowText text;
  int64_t number = 0;  // among all that were read
};

class AsRead final : public BatchStream {
 public:
  AsRead(Shards shards, const PrepareContext& context, int64_t batch_size, const BatchLayout& layout)
      : shards_(std::move(shards)),
        arguments_(*context.arguments),
        context_(context),
        batch_size_(batch_size),
        layout_(layout) {
    context_.arguments = &arguments_;
  }

  int64_t rows() override { return -1; }
  int64_t batches_per_epoch() override { return -1; }
  uint64_t fingerprint() override { return 0; }
  int64_t longest_row() override { return -1; }
  void tell() override {
    if (std::exchange(reported_, true) || counts_.read == 0) return;
    tokens_->report(counts_, shards_.front()->name() + " (as far as it was read)");
  }

  void start_epoch(int64_t epoch, int64_t skip, std::span<const int64_t>) override {
    rewind();
    if (tokens_ == nullptr && (shards_.size() > 1 || arguments_.shuffle_dataset)) open_tokens();
    counts_ = {};
    read_ = 0;
    examples_ = in_order(epoch);
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
  struct Block {
    Pull<NumberedRow> rows;
    std::vector<Example> ready;
    size_t at = 0;
    bool ended = false;
  };

  void rewind() {
    for (const auto& shard : shards_) shard->rewind();
  }

  // The first row of the first file decides what all rows are, whichever row is read first.
  void open_tokens() {
    RowText row;
    const auto holds = [&](const auto& shard) { return shard->next_text(row); };
    if (std::any_of(shards_.begin(), shards_.end(), holds))
      tokens_ = std::make_unique<SftTokens>(context_, parse_row(row));
    rewind();
  }

  bool packs() const { return context_.packing != Packing::none; }

  Pull<Example> in_order(int64_t epoch) {
    const int shuffles = !arguments_.shuffle_dataset ? 0 : packs() ? 2 : 1;  // before packing too
    const std::vector<size_t> order = shard_order(shards_.size(), context_.seed, shuffles, epoch);
    if (!arguments_.shuffle_dataset) return prepared(rows_of(order), kPackingBlockRows);
    const std::vector<std::vector<size_t>> groups = neighbours(order);
    std::vector<Pull<Example>> inputs;
    for (const std::vector<size_t>& group : groups) {
      if (!packs()) {
        inputs.push_back(prepared(rows_of(group), kPackingBlockRows / static_cast<int64_t>(groups.size())));
        continue;
      }
      std::vector<Pull<NumberedRow>> files;
      for (const std::vector<size_t>& part : neighbours(group)) files.push_back(rows_of(part));
      inputs.push_back(prepared(shuffled(std::move(files), 1, epoch), kPackingBlockRows));
    }
    return shuffled(std::move(inputs), packs() ? kPackedChunk : 1, epoch);
  }

  template <class T>
  Pull<T> shuffled(std::vector<Pull<T>> inputs, size_t chunk, int64_t epoch) const {
    auto buffer =
        std::make_shared<ShuffleBuffer<T>>(std::move(inputs), chunk, epoch_generator(context_.seed, epoch));
    return [buffer](T& item) { return buffer->next(item); };
  }

  // One file after the other.
  Pull<NumberedRow> rows_of(std::vector<size_t> shards) {
    return [this, shards = std::move(shards), at = size_t{0}](NumberedRow& row) mutable {
      base::poll();
      for (; at < shards.size(); ++at) {
        if (!shards_[shards[at]]->next_text(row.text)) continue;
        row.number = read_++;
        return true;
      }
      return false;
    };
  }

  // Rows are tokenised, and packed, in blocks of this many.
  Pull<Example> prepared(Pull<NumberedRow> rows, int64_t block_rows) {
    auto block = std::make_shared<Block>();
    block->rows = std::move(rows);
    return [this, block, block_rows](Example& example) {
      if (block->at == block->ready.size() && !read_block(*block, block_rows)) return false;
      example = std::move(block->ready[block->at++]);
      return true;
    };
  }

  // false: the end. A block may keep no row, so more than one may be read.
  bool read_block(Block& block, int64_t block_rows) {
    block.ready.clear();
    block.at = 0;
    while (block.ready.empty() && !block.ended) {
      std::vector<RowText> texts;
      std::vector<int64_t> numbers;
      NumberedRow row;
      while (static_cast<int64_t>(texts.size()) < block_rows && !block.ended) {
        block.ended = !block.rows(row);
        if (block.ended) break;
        texts.push_back(std::move(row.text));
        numbers.push_back(row.number);
      }
      if (texts.empty()) break;
      if (tokens_ == nullptr) tokens_ = std::make_unique<SftTokens>(context_, parse_row(texts.front()));
      block.ready = tokens_->examples(texts, numbers, false, counts_);
    }
    return !block.ready.empty();
  }

  std::vector<Example> next_rows() {
    std::vector<Example> rows;
    for (Example row; static_cast<int64_t>(rows.size()) < batch_size_;) {
      if (!examples_(row)) {
        finish();
        break;
      }
      rows.push_back(std::move(row));
    }
    return rows;
  }

  void finish() {
    const std::string& name = shards_.front()->name();
    if (tokens_ == nullptr) fail(Status::format, "{}: holds no rows", name);
    tokens_->check(counts_, name);
    if (!std::exchange(reported_, true)) tokens_->report(counts_, name);
  }

  const Shards shards_;
  const config::DataArguments arguments_;
  PrepareContext context_;
  const int64_t batch_size_;
  const BatchLayout layout_;
  std::unique_ptr<const SftTokens> tokens_;
  Counts counts_;
  Pull<Example> examples_;
  int64_t read_ = 0;
  bool reported_ = false;
};

}  // namespace

std::unique_ptr<BatchStream> batches_as_read(Shards shards, const PrepareContext& context, int64_t batch_size,
                                             const BatchLayout& layout) {
  return std::make_unique<AsRead>(std::move(shards), context, batch_size, layout);
}

}  // namespace trl::data
