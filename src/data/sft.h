// SFT's data: rows -> token ids and labels (TRL's rules) -> micro-batches in TRL's order.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/cancel.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/thread_pool.h"
#include "config/training_arguments.h"
#include "data/source.h"
#include "text/tokenizer/tokenizer.h"

namespace trl::data {

// What preparation needs beside the rows. All are borrowed and outlive the call. The tokenizer is the one
// that training_tokenizer (open_tokenizer.h) made: eos_token, pad_token and chat_template are in it already.
struct PrepareContext {
  const text::Tokenizer* tokenizer = nullptr;
  const config::SftDataArguments* arguments = nullptr;
  base::LogSink* log = nullptr;
  base::ThreadPool* pool = nullptr;
  base::MemoryCounter* memory = nullptr;
  const base::CancelToken* cancel = nullptr;  // or null
  uint64_t seed = 42;                         // of shuffle_dataset
  int64_t vocab_size = 0;                     // of the model, for rows of token ids; 0: the tokenizer's
  // For evaluation rows: what the training rows decided (Examples::completion_only_loss), as TRL's trainer
  // does.
  std::optional<bool> completion_only_loss;
};

// Prepared rows, held compactly: int32 ids, one bit a token for what is trained. Immutable: concurrent on
// const.
class Examples {
 public:
  Examples() = default;
  virtual ~Examples() = default;
  virtual int64_t size() const = 0;
  virtual std::pair<const int32_t*, int64_t> input_ids(int64_t row) const = 0;  // pointer and length
  virtual void copy_labels(int64_t row, int32_t* out) const = 0;                // as many; -100: not trained
  virtual int64_t source_row(int64_t row) const = 0;                            // index in the source
  virtual int64_t total_tokens() const = 0;
  virtual bool completion_only_loss() const = 0;  // as it was resolved
};

// Reads the whole source. Dropped and cut rows are counted in warnings; nothing left is Error(format).
std::unique_ptr<Examples> prepare_sft(Source& source, const PrepareContext& context);

// Of all ids and labels, in their order.
uint64_t fingerprint(const Examples& examples);

// One micro-batch without padding (see engine::Batch, whose fields these are).
struct HostBatch {
  std::vector<int32_t> input_ids, labels, position_ids, cu_seqlens;
  std::vector<int64_t> row_ids;
  int64_t max_length = 0;
  int64_t counted_tokens = 0;
};
void collate(const Examples& examples, const std::vector<int64_t>& rows, HostBatch& out);

// The same batch as TRL's padded collator lays it out (right padding to the longest row, then to a multiple).
struct PaddedBatch {
  int64_t rows = 0, width = 0;
  std::vector<int32_t> input_ids, labels, attention_mask;  // [rows, width]
};
PaddedBatch pad(const HostBatch& batch, int32_t pad_id, int64_t pad_to_multiple_of = 1);

// Rows of each micro-batch of an epoch, as Trainer's samplers give them to one process.
struct OrderOptions {
  int64_t rows = 0;
  int64_t batch_size = 8;
  bool sequential = false;
  bool drop_last = false;
  uint64_t seed = 42;  // data_seed, or seed
};
std::vector<std::vector<int64_t>> epoch_order(const OrderOptions& options, int64_t epoch);

// The micro-batches of epoch after epoch. exclusive. The examples outlive it.
class BatchStream {
 public:
  // options.rows is taken from examples. Throws Error(invalid_config) where drop_last leaves no batch.
  BatchStream(const Examples& examples, OrderOptions options);
  int64_t rows() const { return examples_.size(); }
  int64_t batches_per_epoch() const { return batches_per_epoch_; }
  void start_epoch(int64_t epoch, int64_t skip = 0);  // makes it current, its first `skip` batches behind it
  bool next(HostBatch& batch);                        // false: the epoch is over

 private:
  const Examples& examples_;
  OrderOptions options_;
  int64_t batches_per_epoch_ = 0;
  std::vector<std::vector<int64_t>> order_;
  size_t at_ = 0;
};

}  // namespace trl::data
