// adapter_config.json as PEFT 0.21 reads and writes it, and README.md of a saved adapter or model: the text
// that the hub shows and searches, and how to load it.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "adapter/target_modules.h"
#include "config/lora_config.h"

namespace trl::adapter {

inline constexpr std::string_view kConfigFile = "adapter_config.json";

// Returns every key that PEFT writes, in its order and with its layout.
std::string config_text(const config::LoraConfig& config, const Selection& selection,
                        std::span<const Module> modules);

// Returns whether a directory is an adapter's and not a model's.
bool is_adapter(const std::string& directory);

// Reads the configuration in an adapter's directory. Throws Error(not_found) without the file (naming the
// folders that have one: PEFT saves further adapters there), Error(format) naming the file if it does not
// describe a LoRA adapter that can be opened.
config::LoraConfig read_config(const std::string& directory);
// Does the same for a model with these modules: with_stacked_experts().
config::LoraConfig read_config(const std::string& directory, std::span<const Module> modules,
                               std::string_view model_type);

// Calls select() for the configuration of that directory; a mismatch is an Error(format) naming the file.
Selection select_saved(const std::string& directory, const config::LoraConfig& config,
                       std::span<const Module> modules, std::string_view model_type);

// Returns the path of the adapter's model: base_model_name_or_path. If nothing exists there, throws
// Error(invalid_config) with the key that overrides the path.
std::string base_model(const std::string& directory, std::string_view key);

// Returns the base_model_name_or_path for a model at `path`: the path, or, in the cache of the Hugging Face
// hub (.../models--ORG--NAME/snapshots/REVISION), its name there, which means the same on every machine.
std::string model_name(const std::string& path);

inline constexpr std::string_view kModelCard = "README.md";

// Returns the metadata that PEFT and TRL write (base_model, library_name, pipeline_tag, tags) and a short
// text. tags: more tags, "sft" and "trl" for a training run.
std::string model_card(const config::LoraConfig& config, std::span<const std::string_view> tags);

// A whole model, whose card has the metadata that TRL's trainers write. name: of its directory. base: the
// model that it was made from, a name of the hub or a local path, which appears only in the text; empty: not
// known.
struct WholeModel {
  std::string name, base;
  bool classifier = false;
  bool gguf = false;  // its weights are model.gguf
};
std::string model_card(const WholeModel& model, std::span<const std::string_view> tags);

}  // namespace trl::adapter
