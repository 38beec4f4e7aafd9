#include "entry/plan/plan_disks.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "entry/plan/memory_plan.h"
#include "entry/plan/same_batch.h"
#include "train/saving/disk_needs.h"
#include "train/trainer/trainer.h"

namespace trl::entry {

namespace {

// Returns the length of a run as far as it is known: by the batches of an epoch, or by its steps.
train::RunSteps steps_of(const engine::PlanSpec& spec) {
  config::TrainingArguments arguments = spec.options->arguments;
  if (const std::optional<int64_t> batches = spec.batches_per_epoch) {
    if (*batches == 0 && arguments.max_steps <= 0) arguments.max_steps = 1;
    const int64_t generations = *batches / config::micro_batches_per_step(arguments);
    const int64_t rows =
        arguments.method->episodes ? generations * arguments.online.generation_batch_size : 1;
    return train::run_steps(arguments, *batches != 0 ? *batches : SameBatch::kMany,
                            std::max<int64_t>(1, rows));
  }
  train::RunSteps steps;
  steps.max_steps = spec.steps;
  steps.save_steps = std::max<int64_t>(1, config::update_count(arguments.save_steps, spec.steps));
  const auto epochs = static_cast<int64_t>(std::ceil(std::max(1.0, arguments.num_train_epochs)));
  steps.updates_per_epoch = std::max<int64_t>(1, (spec.steps + epochs - 1) / epochs);
  return steps;
}

// Throws Error(io) if the disks have too little room for the run. When training starts, the trainer checks
// the room for activations itself, once it knows the largest batch.
void need_disks(const engine::PlanSpec& spec, train::DiskNeeds needs) {
  const config::TrainingArguments& arguments = spec.options->arguments;
  if (arguments.resume_from_checkpoint) needs.checkpoints = 0;  // the checkpoint decides how many are left
  if (spec.batches_per_epoch) needs.activation_bytes = 0;
  train::need_room(arguments, needs);
}

}  // namespace

telemetry::RunPlan::Disk disk_of(const engine::PlanSpec& spec, const Rehearsed& run) {
  const config::TrainingArguments& arguments = spec.options->arguments;
  train::DiskNeeds needs = run.disk;
  needs.checkpoints = train::checkpoints_ahead(arguments, steps_of(spec), 0);
  telemetry::RunPlan::Disk disk;
  disk.checkpoint_bytes = needs.checkpoint_bytes;
  disk.checkpoints = needs.checkpoints;
  disk.model_bytes = needs.model_bytes;
  disk.needed_bytes = needs.saved_bytes();
  disk.free_bytes = train::free_on_disk(arguments.output_dir);
  try {
    need_disks(spec, needs);
  } catch (const Error& error) {
    if (error.status() != Status::io) throw;
    disk.refused = {error.key(), error.message()};
  }
  if (const std::string away = config::offload_directory(arguments); !away.empty())
    disk.offloaded = {needs.state_bytes, needs.activation_bytes, needs.away_bytes(),
                      train::free_on_disk(away)};
  if (const std::string& cache = arguments.cache_frozen_layers; !cache.empty()) {
    std::optional<int64_t> bytes;
    if (spec.epoch_tokens > 0) bytes = static_cast<int64_t>(spec.epoch_tokens) * run.token_state_bytes;
    disk.frozen_states = {bytes, train::free_on_disk(cache)};
  }
  return disk;
}

void check_disks(const engine::PlanSpec& spec) {
  const tensor::Rehearsal rehearsal;
  const auto model = open_as_run(spec, spec.options->config);
  SameBatch batches(std::vector<int64_t>{1}, spec.options->arguments);
  train::Setup setup;
  setup.arguments = spec.options->arguments;
  setup.arguments.max_steps = 1;
  setup.arguments.cache_frozen_layers.clear();  // this cache checks its own disk
  setup.model = model.get();
  setup.source = spec.model.source;
  setup.train = &batches;
  train::DiskNeeds needs = train::Trainer(std::move(setup)).disk_needs();
  needs.checkpoints = train::checkpoints_ahead(spec.options->arguments, steps_of(spec), 0);
  need_disks(spec, needs);
}

}  // namespace trl::entry
