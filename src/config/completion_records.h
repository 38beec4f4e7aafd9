// What a run records of its completions besides TRL's metrics: log_completions.
#pragma once
#include <cstdint>
#include <optional>

#include "config/config.h"

namespace trl::config {

struct CompletionRecords {
  bool logged = false;             // log_completions
  std::optional<int64_t> printed;  // of the completions of a record; none: all
  bool unique_prompts = false;     // prints one completion of each prompt
};

CompletionRecords completion_records(const Config& config);

}  // namespace trl::config
