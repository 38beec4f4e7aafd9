// Predicts the files of a run, and checks that the disks have room for them.
#pragma once
#include <string>

#include "base/log.h"
#include "config/training_arguments.h"
#include "train/run/run_steps.h"
#include "train/run/setup.h"
#include "train/stepper/stepper.h"

namespace trl::train {

// Bytes that exist at the same time.
struct DiskNeeds {
  int64_t checkpoints = 0, checkpoint_bytes = 0;  // in output_dir: how many, and the bytes of each
  int64_t model_bytes = 0;                        // in output_dir, at the end
  int64_t state_bytes = 0;                        // in offload_dir: the states of a paged_ optimizer
  int64_t activation_bytes = 0;  // in offload_dir: activations of the largest micro-batch that leave memory
  int64_t saved_bytes() const;
  int64_t away_bytes() const { return state_bytes + activation_bytes; }
};

// Returns the disk space that a run takes after `done` steps, without headers and small files. Activations:
// of the rehearsed batches.
DiskNeeds disk_needs(const Setup& setup, const Stepper& stepper, const RunSteps& steps, int64_t done);

// Throws Error(io) before the next step if the disks have less room than that; warns if they may have enough
// once activations are compressed.
void need_disks(const Setup& setup, const Stepper& stepper, const RunSteps& steps, int64_t done);

// Returns how many checkpoints in addition to those there now are in output_dir at once, from step `done` on.
// For save_strategy best it is one: how often it finds a better one is not known.
int64_t checkpoints_ahead(const config::TrainingArguments& arguments, const RunSteps& steps, int64_t done);

// Returns the free bytes on the disk of a directory, which may not exist yet; -1: not known.
int64_t free_on_disk(const std::string& directory);

// Says whether the disks have the room needed: the needs of two directories on one disk are added up.
bool has_room(const config::TrainingArguments& arguments, const DiskNeeds& needs);
// Throws Error(io) if they have not, with the key of the directory, and with bytes needed and free.
// Activations that are compressed may take less, so too little room for them is a warning. log: may be null.
void need_room(const config::TrainingArguments& arguments, const DiskNeeds& needs,
               base::LogSink* log = nullptr);

}  // namespace trl::train
