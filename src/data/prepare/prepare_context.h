// The inputs of the preparation of a dataset's rows, for every kind of rows.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "base/interrupt.h"
#include "base/log.h"
#include "base/memory/memory.h"
#include "base/threads/thread_pool.h"
#include "config/dataset/data_arguments.h"
#include "data/batch/packing.h"
#include "data/row/prompt_tools.h"
#include "text/tokenizer/tokenizer.h"

namespace trl::data {

// The weights of rows by their label (KTO).
struct LabelWeights {
  double desirable = 1, undesirable = 1;
};

// The inputs of preparation in addition to the rows. All are borrowed and outlive it, except the arguments,
// which are copied. The tokenizer is the one that training_tokenizer (open_tokenizer.h) made: eos_token,
// pad_token and chat_template are in it already.
struct PrepareContext {
  const text::Tokenizer* tokenizer = nullptr;
  const config::DataArguments* arguments = nullptr;
  base::LogSink* log = nullptr;
  base::ThreadPool* pool = nullptr;
  base::MemoryCounter* memory = nullptr;
  base::Interrupt* background = nullptr;  // for work that outlives the call; or null
  uint64_t seed = 42;                     // seed of shuffle_dataset
  int64_t vocab_size = 0;                 // of the model, for rows of token ids; 0: the tokenizer's
  Packing packing = Packing::none;        // of these rows: evaluation has a separate option
  bool needs_lengths = false;             // of all rows before the first batch: group_by_length
  std::string directory;                  // for rows that exceed the memory limit; empty: memory takes all
  // For evaluation rows: the decision of the training rows (Examples::completion_only_loss), as in TRL's
  // trainer.
  std::optional<bool> completion_only_loss;
  std::optional<LabelWeights> label_weights;  // KTO's training rows: the log says whether they are balanced
  const PromptTools* tools = nullptr;         // of prompts; null: none
  bool may_be_empty = false;                  // evaluation rows may all be dropped
};

}  // namespace trl::data
