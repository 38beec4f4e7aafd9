// Names of the hub in a configuration.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "cli/handles.h"

namespace trl::cli {

// What a command opens of the models that its configuration names: an adapter with its model, or the files
// alone.
enum class Opens : uint8_t { models, files, tokenizers };

// Where model_name_or_path, dataset_name and the like are not local paths but names of the hub, they become
// paths of the Hugging Face cache, into which what is missing is downloaded. hub: the value of --hub, or
// empty. Throws hub::HubError.
void resolve_names(Config& config, const std::string& hub, Opens opens);

}  // namespace trl::cli
