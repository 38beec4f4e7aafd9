// What a run generates, for its plan: sample_prompts, and what estimate.prompt_tokens asks about.
#pragma once
#include <span>
#include <vector>

#include "config/config.h"
#include "engine/engine.h"
#include "run/complete/samples.h"

namespace trl::run {

struct Generation {
  engine::GeneratorSpec spec;
  std::vector<std::vector<int32_t>> samples, asked;  // ids of prompts
  engine::PlannedPrompts of_samples, of_asked;       // the same with their completions
};

// prompts: encoded. Throws Error(invalid_config) for more tokens than a
// plan can have.
std::unique_ptr<const Generation> generation_of(Environment& environment, const config::Config& options,
                                                std::span<const SamplePrompt> prompts);

}  // namespace trl::run
