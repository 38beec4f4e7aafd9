// JSON whose objects may have very many names: a Json searches all names that it has for each new one.
#pragma once
#include <nlohmann/json.hpp>

#include <string>

namespace trl::base {

using SortedJson = nlohmann::json;
SortedJson read_sorted_json_file(const std::string& path);  // errors are those of read_json_file

}  // namespace trl::base
