// Batches of rows as they are read (batches_as_read of batch_stream.h).
#include <algorithm>

#include "base/error.h"
#include "base/interrupt.h"
#include "data/batch/batch_stream.h"
#include "data/batch/stream_shuffle.h"
#include "data/prepare/sft_tokens.h"

namespace trl::data {

namespace {

struct NumberedRow {
  RowText text;
  int64_t number = 0;  // among all rows read
};

class AsRead final : public BatchStream {
 public:
  AsRead(Shards shards, const PrepareContext& context, int64_t batch_size, StreamedRows how)
      : shards_(std::move(shards)),
        arguments_(*context.arguments),
        context_(context),
        batch_size_(batch_size),
        how_(std::move(how)) {
    context_.arguments = &arguments_;
  }

  int64_t rows() override { return -1; }
  int64_t batches_per_epoch() override { return -1; }
  uint64_t fingerprint() override { return 0; }
  int64_t longest_row() override { return -1; }
  std::optional<LongRow> longer_than(int64_t) override { return std::nullopt; }
  void tell() override {
    if (std::exchange(reported_, true) || counts_.read == 0) return;
    kind_->report(counts_, name() + " (as far as it was read)");
  }

  void start_epoch(int64_t epoch, int64_t skip, std::span<const int64_t>) override {
    rewind();
    if (kind_ == nullptr && (shards_.size() > 1 || arguments_.shuffle_dataset)) open_kind();
    counts_ = {};
    read_ = 0;
    records_ = in_order(epoch);
    for (; skip > 0 && !next_records().empty(); --skip) {
    }
  }

  bool next(Batch& batch) override {
    const std::vector<std::string> records = next_records();
    if (records.empty()) return false;
    how_.collate(records, batch);
    return true;
  }

 private:
  struct Block {
    Pull<NumberedRow> rows;
    std::vector<std::string> ready;
    size_t at = 0;
    bool ended = false;
  };

  void rewind() {
    for (const auto& shard : shards_) shard->rewind();
  }

  // The first row of the first file decides the kind of all rows, whichever row is read first.
  void open_kind() {
    RowText row;
    const auto holds = [&](const auto& shard) { return shard->next_text(row); };
    if (std::ranges::any_of(shards_, holds)) kind_ = how_.kind(context_, parse_row(row), name());
    rewind();
  }

  const std::string& name() const { return shards_.front()->name(); }
  bool packs() const { return context_.packing != Packing::none; }

  Pull<std::string> in_order(int64_t epoch) {
    const int shuffles = !arguments_.shuffle_dataset ? 0 : packs() ? 2 : 1;  // before packing too
    const std::vector<size_t> order = shard_order(shards_.size(), context_.seed, shuffles, epoch);
    if (!arguments_.shuffle_dataset) return prepared(rows_of(order), kPackingBlockRows);
    const std::vector<std::vector<size_t>> groups = neighbours(order);
    std::vector<Pull<std::string>> inputs;
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

  // Reads one file after another.
  Pull<NumberedRow> rows_of(std::vector<size_t> shards) {
    return [this, shards = std::move(shards), at = size_t{0}](NumberedRow& row) mutable {
      base::poll();
      for (; at < shards.size(); ++at) {
        if (!next_of(*shards_[shards[at]], row.text)) continue;
        row.number = read_++;
        return true;
      }
      return false;
    };
  }

  // A row's number among those of its file says nothing of the dataset if there are several files, which are
  // read in their order unless they are shuffled.
  bool next_of(Source& shard, RowText& text) const {
    const bool whole = shards_.size() == 1;
    const int64_t row = arguments_.shuffle_dataset ? -1 : read_;
    try {
      if (!shard.next_text(text)) return false;
    } catch (const Error& error) {
      if (whole || error.place().row < 0) throw;
      Place place = error.place();
      place.row = row;
      throw error.at(std::move(place));
    }
    if (!whole) text.row = row;
    return true;
  }

  // Tokenises rows, and packs them, in blocks of `block_rows`.
  Pull<std::string> prepared(Pull<NumberedRow> rows, int64_t block_rows) {
    auto block = std::make_shared<Block>();
    block->rows = std::move(rows);
    return [this, block, block_rows](std::string& record) {
      if (block->at == block->ready.size() && !read_block(*block, block_rows)) return false;
      record = std::move(block->ready[block->at++]);
      return true;
    };
  }

  // Returns false at the end. A block may keep no row, so more than one may be read.
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
      if (kind_ == nullptr) kind_ = how_.kind(context_, parse_row(texts.front()), name());
      block.ready = kind_->records(texts, numbers, false, counts_);
    }
    return !block.ready.empty();
  }

  std::vector<std::string> next_records() {
    std::vector<std::string> records;
    for (std::string record; static_cast<int64_t>(records.size()) < batch_size_;) {
      if (!records_(record)) {
        finish();
        break;
      }
      records.push_back(std::move(record));
    }
    return records;
  }

  void finish() {
    if (kind_ == nullptr) fail(Status::format, "{}: holds no rows", name());
    kind_->check(counts_, name());
    if (!std::exchange(reported_, true)) kind_->report(counts_, name());
  }

  const Shards shards_;
  const config::DataArguments arguments_;
  PrepareContext context_;
  const int64_t batch_size_;
  const StreamedRows how_;
  std::unique_ptr<const RowKind> kind_;
  Counts counts_;
  Pull<std::string> records_;
  int64_t read_ = 0;
  bool reported_ = false;
};

}  // namespace

StreamedRows streamed_sft(const BatchLayout& layout) {
  return {[](const PrepareContext& context, const Row& first, std::string_view) {
            return std::make_unique<const SftTokens>(context, first);
          },
          [layout](const std::vector<std::string>& records, Batch& out) {
            std::vector<Example> rows;
            for (const std::string& record : records) rows.push_back(decode_example(record));
            collate(rows, layout, out);
          }};
}

std::unique_ptr<BatchStream> batches_as_read(Shards shards, const PrepareContext& context, int64_t batch_size,
                                             StreamedRows rows) {
  return std::make_unique<AsRead>(std::move(shards), context, batch_size, std::move(rows));
}

}  // namespace trl::data
