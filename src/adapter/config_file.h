// adapter_config.json as PEFT 0.21 reads and writes it.
#pragma once
#include <span>
#include <string>

#include "adapter/targets.h"
#include "config/lora_config.h"

namespace trl::adapter {

inline constexpr std::string_view kConfigFile = "adapter_config.json";

// Every key that PEFT writes, in its order and with its layout.
std::string config_text(const config::LoraConfig& config, const Selection& selection,
                        std::span<const Module> modules);

// Of an adapter's directory. Throws Error(not_found) without the file, Error(format) naming it where it is
// not one of a LoRA adapter that can be opened.
config::LoraConfig read_config(const std::string& directory);

}  // namespace trl::adapter
