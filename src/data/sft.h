// SFT's data: rows -> token ids and labels (TRL's rules), cut, dropped or packed, kept, and read in any
// order.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/interrupt.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/thread_pool.h"
#include "config/data_arguments.h"
#include "data/example.h"
#include "data/packing.h"
#include "data/source.h"
#include "data/table.h"
#include "text/tokenizer/tokenizer.h"

namespace trl::data {

// What preparation needs beside the rows. All are borrowed and outlive it, but the arguments, which are
// copied. The tokenizer is the one that training_tokenizer (open_tokenizer.h) made: eos_token, pad_token and
// chat_template are in it already.
struct PrepareContext {
  const text::Tokenizer* tokenizer = nullptr;
  const config::SftDataArguments* arguments = nullptr;
  base::LogSink* log = nullptr;
  base::ThreadPool* pool = nullptr;
  base::MemoryCounter* memory = nullptr;
  base::Interrupt* background = nullptr;  // of work that outlives the call; or null
  uint64_t seed = 42;                     // of shuffle_dataset
  int64_t vocab_size = 0;                 // of the model, for rows of token ids; 0: the tokenizer's
  Packing packing = Packing::none;        // of these rows: evaluation has its own
  bool needs_lengths = false;             // of all rows before the first batch: group_by_length
  std::string directory;                  // of what memory does not take; empty: it takes all
  // For evaluation rows: what the training rows decided (Examples::completion_only_loss), as TRL's trainer
  // does.
  std::optional<bool> completion_only_loss;
  bool may_be_empty = false;  // evaluation rows of which nothing is left are allowed
};

// Prepared rows. Rows that could not be prepared, and counts of those that were cut and dropped, come out of
// the next call: exclusive.
class Examples {
 public:
  Examples() = default;
  virtual ~Examples() = default;
  Examples(const Examples&) = delete;
  Examples& operator=(const Examples&) = delete;
  virtual int64_t size() = 0;  // waits for what decides it
  virtual Example read(int64_t row) = 0;
  virtual std::vector<uint32_t> lengths() = 0;  // of all rows, in tokens; waits for all
  virtual int64_t total_tokens() = 0;           // waits for all
  virtual void tell() = 0;  // at the end of a run: what was cut and dropped as far as rows were read, once
  virtual uint64_t fingerprint() const = 0;       // of the rows and of all that they are made with
  virtual bool completion_only_loss() const = 0;  // as it was resolved
};

// Small datasets are prepared at once. Of larger ones all rows are read before the first batch only where
// their number is not known without (packing, rows of token ids), and then beside the caller's work until
// size(); else while the first batches are trained on, and only rows so long that they may be dropped are
// read before. Dropped and cut rows are counted in warnings; nothing left is Error(format).
std::unique_ptr<Examples> prepare_sft(std::shared_ptr<const Table> table, const PrepareContext& context);
std::unique_ptr<Examples> prepare_sft(Source& source, const PrepareContext& context);  // reads it to its end

}  // namespace trl::data
