// README.md of a saved adapter: what the hub shows and searches, and how the adapter is loaded.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "config/lora_config.h"

namespace trl::adapter {

inline constexpr std::string_view kModelCard = "README.md";

// The metadata that PEFT and TRL write (base_model, library_name, pipeline_tag, tags) and a short text.
// tags: more of them, "sft" and "trl" of a training run.
std::string model_card(const config::LoraConfig& config, std::span<const std::string_view> tags);

}  // namespace trl::adapter
