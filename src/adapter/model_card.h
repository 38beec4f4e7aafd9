// README.md of a saved adapter or model: the text that the hub shows and searches, and how to load it.
#pragma once
#include <span>
#include <string>
#include <string_view>

#include "config/lora_config.h"

namespace trl::adapter {

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
