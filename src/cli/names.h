// Names of the hub in a configuration.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "cli/handles.h"

namespace trl::cli {

// The parts that a command opens of the models in its configuration: an adapter with its model, or only the
// files.
enum class Opens : uint8_t { models, files, tokenizers };

// Replaces names of the hub in model_name_or_path, dataset_name and the like by paths of the Hugging Face
// cache, into which missing files are downloaded. Local paths stay. hub: the value of --hub, or empty. Throws
// hub::HubError.
void resolve_names(Config& config, const std::string& hub, Opens opens);

}  // namespace trl::cli
