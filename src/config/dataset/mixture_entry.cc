#include "config/dataset/mixture_entry.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text/nearest.h"
#include "config/table/option_value.h"

namespace trl::config {

const EntryNames& entry_names(std::string_view key) {
  static const EntryNames kTrl{
      "path", "name", "fraction", {"path", "name", "data_dir", "data_files", "split", "columns", "fraction"}};
  static const EntryNames kMixture{"id", "config", "weight", {"id", "config", "split", "columns", "weight"}};
  return key == "datasets" ? kTrl : kMixture;
}

void check_entry_names(std::string_view key, const base::Json& entry,
                       const std::vector<std::string_view>& names) {
  for (const auto& [name, value] : entry.items())
    if (std::ranges::find(names, name) == names.end())
      fail_key(key, "{}: unknown entry {}; give {}", key, shown(name), base::join(names));
}

const base::Json* entry_part(const base::Json& entry, std::string_view name) {
  const auto found = entry.find(name);
  return found == entry.end() || found->is_null() ? nullptr : &*found;
}

void fail_entry_part(std::string_view key, std::string_view name, const base::Json& value,
                     std::string_view accepted) {
  fail_key(key, "{}: {}: {} is not accepted; give {}", key, name, shown(value.dump()), accepted);
}

namespace {

std::string text_part(std::string_view key, std::string_view name, const base::Json& entry,
                      std::string_view fallback) {
  const base::Json* value = entry_part(entry, name);
  if (value == nullptr) return std::string(fallback);
  if (!value->is_string()) fail_entry_part(key, name, *value, "text");
  return value->get<std::string>();
}

std::vector<std::string> texts(std::string_view key, std::string_view name, const base::Json& value) {
  if (value.is_string()) return {value.get<std::string>()};
  const bool list = value.is_array() && !value.empty() &&
                    std::ranges::all_of(value, [](const base::Json& item) { return item.is_string(); });
  if (!list) fail_entry_part(key, name, value, "a list of names");
  return value.get<std::vector<std::string>>();
}

std::string split_part(std::string_view key, const base::Json& entry) {
  std::string split = text_part(key, "split", entry, "train");
  parse_split(key, split);
  return split;
}

// Reads a name, a list of names, or a mapping from splits to these.
void read_data_files(std::string_view key, const base::Json& files, DatasetEntry& entry) {
  for (const SplitPart& part : parse_split(key, entry.split)) {
    const base::Json* of_split = &files;
    if (files.is_object()) {
      const auto found = files.find(part.name);
      if (found == files.end())
        fail_entry_part(key, "data_files", files, fmt::format("files of the split '{}'", part.name));
      of_split = &*found;
    } else if (part.name != "train") {
      fail_key(key, "{}: split: {} is not accepted; data_files without splits are those of 'train'", key,
               shown(part.name));
    }
    entry.data_files[part.name] = texts(key, "data_files", *of_split);
  }
}

}  // namespace

double share_part(std::string_view key, std::string_view name, const base::Json& value, double most) {
  if (!value.is_number() || !(value.get<double>() >= 0) || value.get<double>() > most)
    fail_entry_part(key, name, value, std::isinf(most) ? "a number, 0 or more" : "a number from 0 to 1");
  return value.get<double>();
}

DatasetEntry parse_entry(std::string_view key, const base::Json& value) {
  const EntryNames& names = entry_names(key);
  if (!value.is_object())
    fail_key(key, "{}: an entry is a mapping with {}, not {}", key, names.path, shown(value.dump()));
  check_entry_names(key, value, names.all);
  DatasetEntry entry;
  entry.path = text_part(key, names.path, value, "");
  if (entry.path.empty()) fail_key(key, "{}: {} is missing", key, names.path);
  entry.config = text_part(key, names.config, value, "");
  entry.data_dir = text_part(key, "data_dir", value, "");
  entry.split = split_part(key, value);
  entry.split_key = key;
  if (const base::Json* files = entry_part(value, "data_files")) read_data_files(key, *files, entry);
  if (const base::Json* columns = entry_part(value, "columns")) {
    if (!columns->is_array()) fail_entry_part(key, "columns", *columns, "a list of names");
    entry.columns = texts(key, "columns", *columns);
  }
  if (const base::Json* share = entry_part(value, names.share))
    entry.share = share_part(key, names.share, *share, key == "datasets" ? INFINITY : 1.0);
  return entry;
}

}  // namespace trl::config
