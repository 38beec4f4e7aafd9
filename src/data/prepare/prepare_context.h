// What the preparation of a dataset's rows takes, whatever they become.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "base/interrupt.h"
#include "base/log.h"
#include "base/memory/memory.h"
#include "base/threads/thread_pool.h"
#include "config/data_arguments.h"
#include "data/batch/packing.h"
#include "text/tokenizer/tokenizer.h"

namespace trl::data {

// The weight of a row of each label (KTO).
struct LabelWeights {
  double desirable = 1, undesirable = 1;
};

// What preparation needs beside the rows. All are borrowed and outlive it, but the arguments, which are
// copied. The tokenizer is the one that training_tokenizer (open_tokenizer.h) made: eos_token, pad_token and
// chat_template are in it already.
struct PrepareContext {
  const text::Tokenizer* tokenizer = nullptr;
  const config::DataArguments* arguments = nullptr;
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
  std::optional<LabelWeights> label_weights;  // KTO's training rows: the log says whether they are balanced
  bool may_be_empty = false;                  // evaluation rows may all be dropped
};

}  // namespace trl::data
