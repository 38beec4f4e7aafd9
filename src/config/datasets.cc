#include "config/datasets.h"

#include "base/error.h"
#include "base/nearest.h"
#include "config/value.h"
#include "config/yaml.h"

namespace trl::config {

namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

constexpr std::string_view kMixture =
    "a mixture of datasets is not in this build: write the rows into one file";

std::string text_of(const base::Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

void check_names(std::string_view key, const base::Json& entry, std::span<const std::string_view> names) {
  for (const auto& [name, value] : entry.items()) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    fail_key(key, "{}: unknown entry {}; give {}", key, shown(name), base::join(names));
  }
}

// data_files: a name, a list of one, or {train: name}.
std::string one_file(std::string_view key, const base::Json& files) {
  if (files.is_string()) return files.get<std::string>();
  if (files.size() == 1 && files.is_structured() && files.begin()->is_string())
    return files.begin()->get<std::string>();
  fail_key(key, "{}: data_files: {} is refused: give one file", key, shown(files.dump()));
}

void check_whole(std::string_view key, std::string_view part, const base::Json& entry) {
  const auto share = entry.find(part);
  if (share == entry.end() || share->is_null()) return;
  if (share->is_number() && share->get<double>() == 1.0) return;
  // Of one dataset alone TRL takes every row, whatever its fraction.
  if (part == "fraction" && share->is_number() && share->get<double>() > 0) return;
  fail_key(key, "{}: {}: {} is refused: all rows of a file are read", key, part, shown(share->dump()));
}

// One entry of `datasets`; path_name and config_name differ between TRL and alignment-handbook.
Pairs expand_entry(std::string_view key, const base::Json& entry, std::string_view path_name,
                   std::string_view config_name) {
  if (!entry.is_object())
    fail_key(key, "{}: an entry is a mapping with {}, not {}", key, path_name, shown(entry.dump()));
  const auto path = entry.find(path_name);
  if (path == entry.end() || !path->is_string()) fail_key(key, "{}: {} is missing", key, path_name);
  const auto present = [&](std::string_view name) {
    return entry.contains(name) && !entry.find(name)->is_null();
  };
  if (present("data_dir"))
    fail_key(key, "{}: data_dir is refused: name the file itself as {}", key, path_name);
  check_whole(key, "fraction", entry);
  check_whole(key, "weight", entry);
  Pairs pairs;
  pairs.emplace_back("dataset_name",
                     present("data_files") ? one_file(key, *entry.find("data_files")) : text_of(*path));
  if (present(config_name)) pairs.emplace_back("dataset_config", text_of(*entry.find(config_name)));
  if (present("split")) pairs.emplace_back("dataset_train_split", text_of(*entry.find("split")));
  if (present("columns")) pairs.emplace_back("dataset_select_columns", entry.find("columns")->dump());
  return pairs;
}

const base::Json& only(std::string_view key, const base::Json& list) {
  if (!list.is_array()) fail_key(key, "{}: it is a list of mappings, not {}", key, shown(list.dump()));
  if (list.size() > 1) fail_key(key, "{}: {} entries are refused: {}", key, list.size(), kMixture);
  return list.front();
}

Pairs from_mixture(std::string_view key, const base::Json& value) {
  static constexpr std::string_view kNames[] = {"datasets", "seed", "test_split_size"};
  static constexpr std::string_view kEntry[] = {"id", "config", "split", "columns", "weight"};
  if (!value.is_object() || !value.contains("datasets"))
    fail_key(key, "{}: it is a mapping with datasets", key);
  check_names(key, value, kNames);
  if (value["datasets"].is_array() && value["datasets"].empty()) return {};
  const base::Json& entry = only(key, value["datasets"]);
  if (entry.is_object()) check_names(key, entry, kEntry);
  Pairs pairs = expand_entry(key, entry, "id", "config");
  if (value.contains("seed") && !value["seed"].is_null()) {
    fail_key(key, "{}: seed: {} is refused: the rows are not shuffled beforehand; leave it out", key,
             shown(value["seed"].dump()));
  }
  if (value.contains("test_split_size"))
    pairs.emplace_back("test_split_size", text_of(value["test_split_size"]));
  return pairs;
}

Pairs from_mixer(std::string_view key, const base::Json& value) {
  if (!value.is_object())
    fail_key(key, "{}: it is a mapping from a file to its share, not {}", key, shown(value.dump()));
  if (value.size() != 1) fail_key(key, "{}: {} entries are refused: {}", key, value.size(), kMixture);
  const base::Json& share = value.begin().value();
  if (!share.is_number() || share.get<double>() != 1.0) {
    fail_key(key, "{}: the share {} is refused: all rows of a file are read, give 1.0", key,
             shown(share.dump()));
  }
  return {{"dataset_name", value.begin().key()}};
}

}  // namespace

bool names_datasets(std::string_view key) {
  return key == "datasets" || key == "dataset_mixer" || key == "dataset_mixture";
}

Pairs expand_datasets(std::string_view key, const base::Json& value) {
  if (value.is_null() || (value.is_array() && value.empty())) return {};
  if (key == "dataset_mixer") return from_mixer(key, value);
  if (key == "dataset_mixture") return from_mixture(key, value);
  static constexpr std::string_view kEntry[] = {"path",  "name",    "data_dir", "data_files",
                                                "split", "columns", "fraction"};
  const base::Json& entry = only(key, value);
  if (entry.is_object()) check_names(key, entry, kEntry);
  return expand_entry(key, entry, "path", "name");
}

}  // namespace trl::config
