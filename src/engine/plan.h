// A run that is planned and not executed.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "config/training_arguments.h"
#include "engine/generator.h"
#include "engine/model.h"

namespace trl::config {
struct RunOptions;
}
namespace trl::telemetry {
struct RunPlan;
}

namespace trl::engine {

// Completions that are planned: each prompt has as many, which share its keys.
struct PlannedPrompts {
  std::span<const std::vector<int32_t>> prompts;  // ids
  int64_t completions = 1;
  int64_t max_new_tokens = 0;
  std::string_view keys = {};  // of options that say how many tokens these are
};

// A run that is planned and not executed. Every member has the value that a TrainerSpec with such batches
// has.
struct PlanSpec {
  const config::RunOptions* options = nullptr;
  ModelSpec model;
  std::span<const int64_t> lengths;  // tokens of each row of the largest micro-batch
  // lengths are those that max_length allows; the rows themselves may be shorter.
  bool longest_allowed = false;
  int64_t eval_longest = 0;             // tokens of the longest row of evaluation; 0: as in training
  std::span<const int32_t> new_tokens;  // as in TrainerSpec
  config::Levers levers = {};
  int64_t steps = 0;        // of the run; 0: not known
  double tokens = 0;        // tokens of all steps; 0: not known
  double epoch_tokens = 0;  // tokens of all rows, once; 0: not known
  bool time = true;         // false: no time is predicted or measured
  // The batches of an epoch (-1: streaming; 0: not known), which then say in place of `steps` how much the
  // run writes to its disks.
  std::optional<int64_t> batches_per_epoch = {};
  GeneratorSpec generator = {};
  PlannedPrompts rollouts = {};  // of a generation of a method that writes completions, before the steps
  PlannedPrompts samples = {};   // of sample_prompts, between the steps
  PlannedPrompts asked = {};     // what generation with these weights would take is asked, beside the run
};

class PlanSink {
 public:
  virtual void set(const telemetry::RunPlan& plan) = 0;

 protected:
  ~PlanSink() = default;
};

}  // namespace trl::engine
