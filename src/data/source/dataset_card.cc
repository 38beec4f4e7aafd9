#include "data/source/dataset_card.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/files/files.h"
#include "base/json/json.h"
#include "config/dataset/datasets.h"
#include "config/yaml.h"

namespace trl::data {

namespace {

using base::Json;
using config::DatasetEntry;

constexpr std::string_view kCard = "README.md";

// Returns the YAML between the two lines "---" at the start of a card; empty: it has no header.
std::string header_of(const std::string& card) {
  if (!card.starts_with("---\n") && !card.starts_with("---\r\n")) return "";
  const size_t begin = card.find('\n') + 1;
  const size_t end = card.find("\n---", begin - 1);
  return end == std::string::npos ? "" : card.substr(begin, end + 1 - begin);
}

std::optional<Json> configurations(const std::string& path) {
  const std::string header = header_of(base::read_file(path));
  if (header.empty()) return std::nullopt;
  std::vector<std::string> warnings;
  for (const config::YamlEntry& entry : config::parse_yaml_mapping(header, path, warnings))
    if (entry.key == "configs" && entry.value.is_array() && !entry.value.empty()) return entry.value;
  return std::nullopt;
}

std::string name_of(const Json& configuration) {
  const auto name = configuration.find("config_name");
  return name != configuration.end() && name->is_string() ? name->get<std::string>() : "default";
}

bool is_default(const Json& configuration) {
  const auto marked = configuration.find("default");
  return name_of(configuration) == "default" || (marked != configuration.end() && *marked == true);
}

// Returns the configuration of that name; for an empty name the default or the only one.
const Json& chosen(std::string_view key, const std::string& path, const Json& all, const std::string& name) {
  std::vector<std::string> names;
  for (const Json& one : all) {
    if (!one.is_object())
      fail(Status::format, "{}: configs: {} is not a mapping", Place::in(path), one.dump());
    if (name.empty() ? all.size() == 1 || is_default(one) : name_of(one) == name) return one;
    names.push_back(name_of(one));
  }
  if (name.empty())
    fail_key(key, "{}: {} has several configurations; give dataset_config (in a mixture, name): {}", key,
             path, fmt::join(names, ", "));
  fail_key(key, "{}: {} has no configuration '{}'; there are: {}", key, path, name, fmt::join(names, ", "));
}

// A pattern, a list of them, or a list of {split, path}: path is one or several.
void add_files(const std::string& path, const Json& files, const std::string& split, DatasetEntry& entry) {
  if (files.is_string()) {
    entry.data_files[split].push_back(files.get<std::string>());
  } else if (files.is_array()) {
    for (const Json& one : files) add_files(path, one, split, entry);
  } else if (files.is_object() && files.contains("path")) {
    const auto own = files.find("split");
    add_files(path, files["path"], own != files.end() && own->is_string() ? own->get<std::string>() : split,
              entry);
  } else {
    fail(Status::format, "{}: data_files: {} is neither a pattern nor a split with its path", Place::in(path),
         files.dump());
  }
}

}  // namespace

bool apply_card(std::string_view key, DatasetEntry& entry) {
  if (!entry.data_files.empty() || !entry.data_dir.empty() || !base::is_directory(entry.path)) return false;
  const std::string path = base::join_path(entry.path, kCard);
  if (!base::file_exists(path)) return false;
  const std::optional<Json> all = configurations(path);
  if (!all) return false;
  const bool folder = !entry.config.empty() && base::is_directory(base::join_path(entry.path, entry.config));
  const bool known = std::ranges::any_of(
      *all, [&](const Json& one) { return one.is_object() && name_of(one) == entry.config; });
  if (folder && !known) return false;
  const Json& configuration = chosen(key, path, *all, entry.config);
  entry.config.clear();
  if (const auto below = configuration.find("data_dir"); below != configuration.end() && below->is_string())
    entry.data_dir = below->get<std::string>();
  const auto files = configuration.find("data_files");
  if (files == configuration.end()) return false;  // the folder, by the names of its files
  add_files(path, *files, "train", entry);
  return true;
}

bool card_has_splits(const DatasetEntry& entry) {
  const std::vector<config::SplitPart> parts = config::parse_split(entry.split_key, entry.split);
  return std::ranges::all_of(
      parts, [&](const config::SplitPart& part) { return entry.data_files.contains(part.name); });
}

void check_card_splits(const DatasetEntry& entry) {
  if (card_has_splits(entry)) return;
  std::vector<std::string> names;
  for (const auto& [name, files] : entry.data_files) names.push_back(name);
  fail_key(entry.split_key, "{}: '{}': {} has the splits {} (by its {})", entry.split_key, entry.split,
           entry.path, fmt::join(names, ", "), kCard);
}

}  // namespace trl::data
