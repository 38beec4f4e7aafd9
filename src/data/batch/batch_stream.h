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

// Options for the order of training rows and of evaluation rows, from the configuration.
OrderOptions train_order(const config::TrainingArguments& training, const config::DataArguments& data);
OrderOptions eval_order(const config::TrainingArguments& training, const config::DataArguments& data);
BatchLayout layout_of(const config::DataArguments& data);

// A sequence, by the dataset's rows that it comes from: one, or those of a pack without borders.
struct LongRow {
  std::vector<int64_t> rows;
  int64_t tokens;
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
  // Returns the first row with a sequence of more tokens; waits for all rows. nullopt for streamed rows.
  virtual std::optional<LongRow> longer_than(int64_t tokens) = 0;
  virtual void tell() = 0;  // like Examples::tell
  // Starts after the first `skip` batches of the epoch. evaluations_before: as in engine::BatchSource.
  virtual void start_epoch(int64_t epoch, int64_t skip = 0,
                           std::span<const int64_t> evaluations_before = {}) = 0;
  // Starts a pass instead of an epoch: each row once, in file order, `batch_size` rows per batch; the last
  // batch may be short. The next epoch starts anew. Error(unsupported) if rows are not kept.
  virtual void start_pass(int64_t batch_size);
  virtual bool next(Batch& batch) = 0;  // false: the epoch is over
};

// Makes batches of prepared rows, in the order of OrderOptions, whose `rows` is taken from them.
std::unique_ptr<BatchStream> batches_in_order(std::unique_ptr<Examples> examples, const OrderOptions& options,
                                              const BatchLayout& layout);
// Prepares streamed rows and makes batches of them.
struct StreamedRows {
  // first: the first row of the first file; it decides the kind of all rows.
  std::function<std::unique_ptr<const RowKind>(const PrepareContext&, const Row& first,
                                               std::string_view name)>
      kind;
  std::function<void(const std::vector<std::string>& records, Batch&)> collate;
};
StreamedRows streamed_sft(const BatchLayout& layout);

// Makes batches of rows that are read, prepared and forgotten one after another (dataset_streaming), on the
// calling thread. The last batch is never left out, as in TRL. Files change their order from epoch to epoch,
// and with shuffle_dataset rows are shuffled in a buffer (stream_shuffle.h), as datasets 5.2 does.
using Shards = std::vector<std::unique_ptr<Source>>;  // files, one after the other
std::unique_ptr<BatchStream> batches_as_read(Shards shards, const PrepareContext& context, int64_t batch_size,
                                             StreamedRows rows);

}  // namespace trl::data
