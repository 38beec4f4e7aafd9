// Reads the options generate.*: the ids of prompts, and how tokens are drawn.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "engine/engine.h"
#include "run/tokenizer.h"

namespace trl::run {

// The result refers to `adapter`, which must outlive it.
engine::Sampling sampling_of(const config::Config& options, const std::string& adapter);

// Returns the ids of each prompt, once for each of its completions.
std::vector<std::vector<int32_t>> prompt_ids(const Tokenizer& tokenizer,
                                             std::span<const std::string_view> prompts,
                                             const config::Config& options);

}  // namespace trl::run
