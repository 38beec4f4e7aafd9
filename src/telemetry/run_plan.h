// A predicted run: its memory by term and moment, its time and the disk space that it needs. Plain numbers:
// entry/plan/memory_plan.h finds them, run/plan/ compares them, and report/plan_report.h shows them.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json/json.h"
#include "base/memory/memory.h"

namespace trl::telemetry {

struct Refusal {
  std::string key, message;
};

// include/trl/trl.h describes the members at trl_trainer_plan.
struct RunPlan {
  struct Term {
    std::string name;
    int64_t bytes = 0;       // at the peak
    int64_t most_bytes = 0;  // the term's own maximum
  };
  struct Moment {
    double at = 0;  // the share of the arithmetic that is done before, from 0 to 1
    std::string stage;
    std::vector<int64_t> bytes;  // of each term
  };
  // Activations that leave memory for a file in a step.
  struct Leaving {
    int64_t bytes = 0, most_bytes = 0, free_bytes = 0;  // most_bytes: at once
    double write_bytes_per_second = 0, read_bytes_per_second = 0;
  };
  struct Time {
    int64_t tokens_per_step = 0;
    double seconds_per_step = 0, tokens_per_second = 0;  // 0: no time is predicted
    int64_t steps = 0;                                   // these three of the run; 0: not known
    double tokens = 0, seconds = 0;
  };
  // Free bytes: -1: not known.
  struct Disk {
    struct Offloaded {
      int64_t state_bytes = 0, activation_bytes = 0, needed_bytes = 0, free_bytes = -1;
    };
    struct FrozenStates {
      std::optional<int64_t> bytes;
      int64_t free_bytes = -1;
    };
    int64_t checkpoint_bytes = 0, checkpoints = 0, model_bytes = 0, needed_bytes = 0, free_bytes = -1;
    std::optional<Refusal> refused;  // a disk has too little room for the run
    std::optional<Offloaded> offloaded;
    std::optional<FrozenStates> frozen_states;
  };
  // The memory of generation, in bytes at most. Keys and values are allocated by slabs of blocks.
  struct Generation {
    int64_t prompts = 0, prompt_tokens = 0, completions = 0, max_new_tokens = 0;  // prompt_tokens: at most
    int64_t weights_bytes = 0, copies_bytes = 0;  // weights_bytes: beside those that the run has
    int64_t block_tokens = 0, block_bytes = 0, blocks = 0, kv_bytes = 0, kv_limit_bytes = 0;
    int64_t logits_bytes = 0, work_bytes = 0;
    int64_t bytes = 0;         // of all of these together
    int64_t asleep_bytes = 0;  // of them that stay between generations
    int64_t peak_bytes = 0;    // of the process meanwhile
    // Beside all these, while a server takes all weights from a client: its message, and the old numbers.
    int64_t update_bytes = 0;
    int64_t sequences_that_fit = 0;
  };
  // The bytes that an adapter takes, at most, as it is merged into the weights: copies of the weights that
  // change, and unpacked values of quantized ones.
  struct Merge {
    int64_t bytes = 0;       // of trl_model_merge_adapter
    int64_t save_bytes = 0;  // of a save with save.kind merged
    int64_t peak_bytes = 0;  // of the process while the run saves so
  };
  // The memory that the process may take; nullopt: not known.
  struct Room {
    std::optional<int64_t> machine_bytes, cgroup_bytes;
    std::optional<std::string> warning;  // they lack memory
  };

  std::optional<Leaving> leaving;
  Time time;
  int64_t peak_bytes = 0, process_bytes = 0, counted_bytes = 0;
  std::array<int64_t, base::kMemoryKinds> kinds = {};
  std::vector<Term> terms;  // the first is the process
  std::vector<Moment> timeline;
  int64_t row_tokens = 0, parameters = 0, trained_parameters = 0;
  int64_t cache_tokens = 0, cache_bytes = 0;      // the keys and values of one sequence in generation
  std::optional<Generation> samples, generation;  // of sample_prompts; of estimate.prompt_tokens
  std::optional<Merge> merge;                     // nullopt: no adapter is trained, or it cannot be merged
  Disk disk;
  std::string way;  // that memory_budget chose; empty: no budget
  Room room;
  std::string model;
  int64_t rows = 0;  // of a micro-batch

  // Replaces the bytes that the process has without the run.
  void set_process(int64_t bytes);
};

// The plan of a run with one set of its options.
struct PlannedSet {
  std::string options;  // "optim: adamw_8bit"; "as configured"
  RunPlan plan;         // empty if the set is refused
  std::optional<Refusal> refused;
};

// Returns the object that trl_trainer_plan gives. sets: the configuration itself first, then its
// alternatives.
base::Json to_json(const std::vector<PlannedSet>& sets);

}  // namespace trl::telemetry
