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

// The result is valid as long as `adapter` is.
engine::Sampling sampling_of(const config::Config& options, const std::string& adapter);

// The ids of each prompt, as often as it is completed.
std::vector<std::vector<int32_t>> prompt_ids(const Tokenizer& tokenizer,
                                             std::span<const std::string_view> prompts,
                                             const config::Config& options);

}  // namespace trl::run
