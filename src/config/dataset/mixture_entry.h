// Reads an entry of a mixture: the names that TRL's DatasetConfig and open-r1's give its parts, and their
// values. These functions throw Error(invalid_config) with the key, the part and what is accepted.
#pragma once
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "config/dataset/datasets.h"

namespace trl::config {

// The names that the two families give the parts of an entry.
struct EntryNames {
  std::string_view path, config, share;
  std::vector<std::string_view> all;
};

const EntryNames& entry_names(std::string_view key);

void check_entry_names(std::string_view key, const base::Json& entry,
                       const std::vector<std::string_view>& names);
// Returns a part of an entry; null: it is not there, or null.
const base::Json* entry_part(const base::Json& entry, std::string_view name);
[[noreturn]] void fail_entry_part(std::string_view key, std::string_view name, const base::Json& value,
                                  std::string_view accepted);
double share_part(std::string_view key, std::string_view name, const base::Json& value, double most);
// Reads an entry, which may hold the parts of both; a part that would select rows in an unsupported way is
// refused.
DatasetEntry parse_entry(std::string_view key, const base::Json& value);

}  // namespace trl::config
