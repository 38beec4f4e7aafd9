// The inputs of a training run, which the parts of a trainer share, and what a resume compares of them.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/json/json.h"
#include "base/log.h"
#include "config/training_arguments.h"
#include "engine/batch_source.h"
#include "engine/host.h"
#include "engine/model.h"
#include "engine/trainer.h"
#include "io/model_source.h"
#include "model/model.h"

namespace trl::train {

class Rollouts;

struct Setup {
  config::TrainingArguments arguments;
  model::Model* model = nullptr;
  io::ModelSource source = {};                      // of the model
  kernels::AttentionPluginPtr attention = nullptr;  // the built-in one
  // Owns `train` and `eval` if the method learns from completions; else null.
  std::shared_ptr<Rollouts> rollouts = nullptr;
  engine::BatchSource* train = nullptr;
  engine::BatchSource* eval = nullptr;  // or null
  // The processes of this run, which take the micro-batches by turns, and the number of this one.
  int64_t processes = 1, rank = 0;
  // The most tokens of a row; 0: not known.
  int64_t longest_row = 0;
  engine::SpecialTokens tokens = {};    // of the tokenizer
  engine::EventSink* events = nullptr;  // or null
  // For every saved directory; outlive the trainer.
  std::vector<engine::NamedBytes> files;
  engine::GgufVocabulary vocabulary = {};  // for save_format gguf; outlives the trainer
  base::LogSink* log = nullptr;            // or null
  // The options that a resume compares.
  std::vector<std::pair<std::string, std::string>> options;
  const base::WriteFault* write_fault = nullptr;  // for tests
  int64_t predicted_peak = 0;                     // resident bytes, for the last record; 0: not known
};

// Refuses options that need our kernels, or those of plug-ins, if the model is not on the CPU: they run only
// there.
void check_device(const config::TrainingArguments& arguments, at::Device device);

// Returns all that the rest of a run depends on besides its state: the options, the threads and the rows.
base::Json fingerprint(const Setup& setup);

// Warns of each difference from the fingerprint of a checkpoint.
void warn_of_changes(const Setup& setup, const base::Json& before);

// Returns whether an option of a checkpoint's fingerprint has another value now.
bool changed(const Setup& setup, const base::Json& before, const char* option);

}  // namespace trl::train
