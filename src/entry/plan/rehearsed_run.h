// The rehearsal of a run: its model and trainer, made as in the run, one step, and all that follows it.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>

#include "config/training_arguments.h"
#include "engine/plan.h"
#include "entry/plan/generation_plan.h"
#include "model/model.h"
#include "telemetry/run_plan.h"
#include "tensor/memory/rehearsal.h"
#include "train/saving/disk_needs.h"

namespace trl::entry {

// The figures of a rehearsal, and the part of the plan that follows from them alone.
struct Rehearsed {
  telemetry::RunPlan plan;  // without the process, time and disks
  std::map<tensor::Work, double> work;
  double traffic = 0;  // bytes that pass through memory in addition to those of products
  int64_t left = 0;    // bytes that move from memory to a file, and back
  train::DiskNeeds disk;
  int64_t token_state_bytes = 0;  // hidden states of one token, which cache_frozen_layers keeps
  int64_t tokens = 0;             // of a micro-batch, as num_tokens counts them
  int64_t events = 0;             // up to the end of the step, or of the evaluation or samples after it
  std::optional<RehearsedGeneration> samples, asked;
  std::optional<RehearsedMerge> merge;
  int64_t trained_bytes = 0;  // of the weights that are trained
};

// Opens the model as a run does, in a rehearsal.
std::unique_ptr<model::Model> open_as_run(const engine::PlanSpec& spec, const config::Config& config);

void rehearse_run(const engine::PlanSpec& spec, const config::Config& config,
                  const config::TrainingArguments& arguments, const tensor::Rehearsal& rehearsal,
                  Rehearsed& out);

}  // namespace trl::entry
