// Micro-batches, epoch after epoch, for the engine.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/training_arguments.h"
#include "data/batch/collate.h"
#include "data/batch/order.h"
#include "data/prepare/row_kind.h"
#include "data/prepare/sft.h"

namespace trl::data {

// Of training rows and of evaluation rows, as in the configuration.
OrderOptions train_order(const config::TrainingArguments& training, const config::DataArguments& data);
OrderOptions eval_order(const config::TrainingArguments& training, const config::DataArguments& data);
BatchLayout layout_of(const config::DataArguments& data);

// A row of the dataset, and the tokens of its longest sequence.
struct LongRow {
  int64_t row, tokens;
};

// exclusive.
class BatchStream {
 public:
  BatchStream() = default;
  virtual ~BatchStream() = default;
  BatchStream(const BatchStream&) = delete;
  BatchStream& operator=(const BatchStream&) = delete;
  virtual int64_t rows() = 0;               // -1: not known
  virtual int64_t batches_per_epoch() = 0;  // -1: not known
  virtual uint64_t fingerprint() = 0;       // 0: not known
  virtual int64_t longest_row() = 0;        // tokens of the longest prepared row; -1: not known
  // The first row with a sequence of more tokens; waits for all. Of rows that are streamed none is known.
  virtual std::optional<LongRow> longer_than(int64_t tokens) = 0;
  virtual void tell() = 0;  // as Examples::tell
  // Its first `skip` batches behind it. evaluations_before: as engine::BatchSource has it.
  virtual void start_epoch(int64_t epoch, int64_t skip = 0,
                           std::span<const int64_t> evaluations_before = {}) = 0;
  // Instead of an epoch: each row once, in file order, that many per batch; the last one may be short. The
  // next epoch starts anew. Error(unsupported) where rows are not kept.
  virtual void start_pass(int64_t batch_size);
  virtual bool next(HostBatch& batch) = 0;  // false: the epoch is over
};

// Of prepared rows, in the order of OrderOptions, whose `rows` is taken from them.
std::unique_ptr<BatchStream> batches_in_order(std::unique_ptr<Examples> examples, const OrderOptions& options,
                                              const BatchLayout& layout);
// What rows that are streamed become, and batches of them.
struct StreamedRows {
  // first: the first row of the first file, which decides what all rows are.
  std::function<std::unique_ptr<const RowKind>(const PrepareContext&, const Row& first,
                                               std::string_view name)>
      kind;
  std::function<void(const std::vector<std::string>& records, HostBatch&)> collate;
};
StreamedRows streamed_sft(const BatchLayout& layout);

// Of rows that are read, prepared and forgotten as they come (dataset_streaming), on the calling thread. The
// last batch is never left out, as in TRL. Files change their order from epoch to epoch, and with
// shuffle_dataset rows are shuffled in a buffer (stream_shuffle.h), as datasets 5.2 does it.
using Shards = std::vector<std::unique_ptr<Source>>;  // files, one after the other
std::unique_ptr<BatchStream> batches_as_read(Shards shards, const PrepareContext& context, int64_t batch_size,
                                             StreamedRows rows);

}  // namespace trl::data
