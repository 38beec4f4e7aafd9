// JSON for objects with very many names: a Json searches all its names for each new one.
#pragma once
#include <nlohmann/json.hpp>

#include <string>

namespace trl::base {

using SortedJson = nlohmann::json;
SortedJson read_sorted_json_file(const std::string& path);  // throws the same errors as read_json_file

}  // namespace trl::base
