// The mapping speculative_config of vLLM, as a request has it.
#pragma once
#include "config/config.h"
#include "engine/sampling.h"

namespace trl::run {

// Reads generate.speculative_config. Throws Error(invalid_config) for another method than ngram, for entries
// that prompt lookup does not have, for a missing num_speculative_tokens, and for numbers out of range.
engine::Speculation speculation_of(const config::Config& options);

}  // namespace trl::run
