// The records of completions beside TRL's metrics: log_completions, eval_pass_at_k.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/online/online_arguments.h"

namespace trl::config {

struct CompletionRecords {
  bool logged = false;             // log_completions, or samples
  bool samples = false;            // num_sample_generations: of evaluation rows alone
  std::optional<int64_t> printed;  // of the completions of a record; none: all
  bool unique_prompts = false;     // prints one completion of each prompt
  std::vector<int64_t> pass_at_k;  // in evaluation
  std::string pass_reward;         // that it counts; empty: the only one
};

// Throws Error(invalid_config) for a k that num_generations_eval does not allow.
CompletionRecords completion_records(const Config& config, const OnlineArguments& arguments);

}  // namespace trl::config
