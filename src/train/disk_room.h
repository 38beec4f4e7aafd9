// Whether the disk has room for what a run will write.
#pragma once
#include <string>

#include "base/log.h"
#include "config/training_arguments.h"
#include "train/run_steps.h"

namespace trl::train {

// Bytes, at once.
struct DiskNeeds {
  int64_t checkpoints = 0, checkpoint_bytes = 0;  // in output_dir: how many, and the bytes of each
  int64_t model_bytes = 0;                        // there, at the end
  int64_t state_bytes = 0;                        // in offload_dir: the states of a paged_ optimizer
  int64_t activation_bytes = 0;                   // there: what leaves memory of the largest micro-batch
  int64_t saved_bytes() const;
  int64_t away_bytes() const { return state_bytes + activation_bytes; }
};

// How many checkpoints beside those that are there now lie in output_dir at once, from step `done` on. Of
// save_strategy best one: how often it finds a better one is not known.
int64_t checkpoints_ahead(const config::TrainingArguments& arguments, const RunSteps& steps, int64_t done);

// Bytes that are free where a directory is, or will be; -1: not known.
int64_t free_on_disk(const std::string& directory);

// Whether they are as many as needed: what two directories of one disk need is added up.
bool has_room(const config::TrainingArguments& arguments, const DiskNeeds& needs);
// Error(io) where they are not, with the key of the directory, and with bytes needed and free. Activations
// that are compressed may take less, so too little room for them is a warning. log: may be null.
void need_room(const config::TrainingArguments& arguments, const DiskNeeds& needs,
               base::LogSink* log = nullptr);

}  // namespace trl::train
