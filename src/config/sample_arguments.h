// sample_prompts: the prompts that a run completes while it trains, and when.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "base/json/json.h"
#include "config/config.h"

namespace trl::config {

struct SampleArguments {
  bool asked = false;
  base::Json prompts;            // a list, as given; empty if there is a file
  std::string file;              // the file whose rows are the prompts; or empty
  std::optional<int64_t> steps;  // none: with evaluations or checkpoints
  bool evaluates = false;        // the run has evaluations
  int64_t max_new_tokens = 0;
};

// Throws Error(invalid_config) for an empty list, and for a method whose model does not generate text.
SampleArguments sample_arguments(const Config& config);

}  // namespace trl::config
