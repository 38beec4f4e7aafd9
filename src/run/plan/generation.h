// The completions of a run, for its plan: a generation of its method, sample_prompts, and those that
// estimate.prompt_tokens asks about.
#pragma once
#include <span>
#include <vector>

#include "config/config.h"
#include "engine/generator.h"
#include "engine/plan.h"
#include "run/complete/samples.h"

namespace trl::run {

struct Generation {
  engine::GeneratorSpec spec;
  std::vector<std::vector<int32_t>> rollouts, samples, asked;  // ids of prompts
  engine::PlannedPrompts of_rollouts, of_samples, of_asked;    // the same with their completions
};

// prompts: encoded. longest: tokens of the longest prompt of a method that writes completions; 0: another
// method, or not known. Throws Error(invalid_config) for more tokens than a
// plan can have.
std::unique_ptr<const Generation> generation_of(Environment& environment, const config::Config& options,
                                                std::span<const SamplePrompt> prompts, int64_t longest = 0);

}  // namespace trl::run
