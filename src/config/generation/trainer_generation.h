// How the completions of a trainer are written, by its own keys.
#pragma once
#include <cstdint>

#include "config/config.h"

namespace trl::config {

enum class Completions : uint8_t { of_training, of_evaluation };

// Returns the key that the method has for the longest completion.
std::string_view length_key(const Config& config);

// Returns completions of a prompt.
int64_t completions_of_prompt(const Config& config, Completions which);

// Says which key keeps the completions to a form: vllm_structured_outputs_regex, which needs use_vllm, or the
// entry structured_outputs of generation_kwargs, which the key overrides.
enum class Structures : uint8_t { none, by_regex, by_kwargs };
Structures structures_of(const Config& config);

// Returns the temperature, which the loss divides by, too, if the method tempers.
double trainer_temperature(const Config& config);

// Returns the configuration with the method's keys (temperature, top_p, ..., generation_kwargs, and eval_* in
// evaluation) as options of the group generate, whose own values do not count: those are for sample_prompts.
// The number of completions is generate.num_return_sequences, the seed of the draws is seed. Throws
// Error(invalid_config): as apply_generation_kwargs, for a null max_completion_length, and for
// eval_temperature 0 with several completions of a prompt, which would be equal.
Config trainer_generation(const Config& config, Completions which);

}  // namespace trl::config
