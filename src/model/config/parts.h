// The larger parts of reading config.json: sizes, the kind of head, and how layers differ.
#pragma once
#include <cstdint>

#include "model/config/config_keys.h"
#include "model/config/model_config.h"

namespace trl::model {

void parse_sizes(const ConfigKeys& keys, const Sizes& sizes, ModelConfig& config);

// Throws Error(unsupported) if "architectures" names a model with another head.
void check_architecture(const ConfigKeys& keys, const Family& family, Head head);
// Counts labels as transformers does.
int64_t count_labels(const ConfigKeys& keys);
// Reads what only a reward model has.
void parse_score(const ConfigKeys& keys, ModelConfig& config);

// All three follow parse_sizes(), and windows may depend on turned layers.
void parse_turned_layers(const ConfigKeys& keys, const Rope& rope, ModelConfig& config);
void parse_windows(const ConfigKeys& keys, const Window& window, ModelConfig& config);
void parse_experts(const ConfigKeys& keys, const Family& family, ModelConfig& config);

}  // namespace trl::model
