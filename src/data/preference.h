// Preparation of preference, unpaired and prompt-only datasets: every row to token ids, once, in source
// order; what is dropped or cut is counted in one warning.
#pragma once
#include <memory>

#include "base/log.h"
#include "base/thread_pool.h"
#include "config/data_arguments.h"
#include "data/preference_examples.h"
#include "data/table.h"
#include "text/tokenizer/tokenizer.h"

namespace trl::data {

// All are borrowed and outlive the call.
struct PreferenceContext {
  const text::Tokenizer* tokenizer = nullptr;  // that training_tokenizer made
  const config::PreferenceDataArguments* arguments = nullptr;
  base::LogSink* log = nullptr;
  base::ThreadPool* pool = nullptr;
  int64_t vocab_size = 0;  // of the model, for rows of token ids; 0: the tokenizer's
  RecordStore::Options store;
};

using PreferenceList = ExampleList<PreferenceExample>;
using UnpairedList = ExampleList<UnpairedExample>;
using PromptList = ExampleList<PromptExample>;

// Throw Error(format) for a bad row, and where nothing is left.
std::unique_ptr<PreferenceList> prepare_dpo(const Table& table, const PreferenceContext& context);
std::unique_ptr<PreferenceList> prepare_reward(const Table& table, const PreferenceContext& context);
// Paired rows become unpaired ones: of each block of 1000, all that were chosen, then all that were rejected.
std::unique_ptr<UnpairedList> prepare_kto(const Table& table, const PreferenceContext& context);
std::unique_ptr<PromptList> prepare_prompts(const Table& table, const PreferenceContext& context);

}  // namespace trl::data
