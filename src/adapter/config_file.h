// adapter_config.json as PEFT 0.21 reads and writes it.
#pragma once
#include <span>
#include <string>

#include "adapter/target_modules.h"
#include "config/lora_config.h"

namespace trl::adapter {

inline constexpr std::string_view kConfigFile = "adapter_config.json";

// Every key that PEFT writes, in its order and with its layout.
std::string config_text(const config::LoraConfig& config, const Selection& selection,
                        std::span<const Module> modules);

// Whether a directory is that of an adapter and not of a model.
bool is_adapter(const std::string& directory);

// Of an adapter's directory. Throws Error(not_found) without the file (naming the folders that have one: PEFT
// saves further adapters there), Error(format) naming it where it is not one of a LoRA adapter that can be
// opened.
config::LoraConfig read_config(const std::string& directory);
// The same for a model with these modules: with_stacked_experts().
config::LoraConfig read_config(const std::string& directory, std::span<const Module> modules,
                               std::string_view model_type);

// select() for the configuration of that directory: what does not fit is an Error(format) naming the file.
Selection select_saved(const std::string& directory, const config::LoraConfig& config,
                       std::span<const Module> modules, std::string_view model_type);

// Where the adapter's model lies: base_model_name_or_path. Throws Error(invalid_config) with the key that
// says it otherwise, where nothing is there.
std::string base_model(const std::string& directory, std::string_view key);

// What base_model_name_or_path says of a model that lies at `path`: the path, or, in the cache of the Hugging
// Face hub (.../models--ORG--NAME/snapshots/REVISION), its name there, which means the same on every machine.
std::string model_name(const std::string& path);

}  // namespace trl::adapter
