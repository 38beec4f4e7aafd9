// The nested forms in which a file names its rows (datasets, dataset_mixer, dataset_mixture), as plain keys.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"

namespace trl::config {

bool names_datasets(std::string_view key);

// One dataset becomes dataset_name and its like. Throws Error(invalid_config): several of them, or a part of
// one that would select rows in a way this build does not.
std::vector<std::pair<std::string, std::string>> expand_datasets(std::string_view key,
                                                                 const base::Json& value);

}  // namespace trl::config
