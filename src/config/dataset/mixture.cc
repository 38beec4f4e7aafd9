// Parses and checks a mixture of datasets: the value of datasets, dataset_mixer or dataset_mixture.
#include <cmath>

#include "base/error.h"
#include "base/json/is_text.h"
#include "config/dataset/datasets.h"
#include "config/dataset/mixture_entry.h"
#include "config/table/option_value.h"

namespace trl::config {

namespace {

void check_fractions(std::string_view key, const std::vector<DatasetEntry>& entries) {
  double sum = 0;
  size_t given = 0;
  for (const DatasetEntry& entry : entries) {
    given += entry.share.has_value() ? 1 : 0;
    sum += entry.share.value_or(0);
  }
  if (given == 0) return;
  if (given < entries.size()) fail_key(key, "{}: fraction must be given for all entries or for none", key);
  if (!(sum > 0) || std::isinf(sum))
    fail_key(key, "{}: the fractions add up to {}: they give no rows", key, sum);
}

void parse_list(std::string_view key, const base::Json& list, Mixture& mixture) {
  if (!list.is_array()) fail_key(key, "{}: it is a list of mappings, not {}", key, shown(list.dump()));
  for (const base::Json& entry : list) mixture.entries.push_back(parse_entry(key, entry));
}

}  // namespace

double split_size(std::string_view key, const base::Json& value) {
  const double size = value.is_number() ? value.get<double>() : NAN;
  if (!(size > 0) || (size >= 1 && size != std::floor(size))) {
    fail_key(key, "test_split_size: {} is not accepted; give a number of rows, or a share below 1",
             shown(value.dump()));
  }
  return size;
}

Mixture parse_mixture(std::string_view key, const base::Json& value) {
  Mixture mixture;
  if (value.is_null()) return mixture;
  if (key == "datasets") {
    parse_list(key, value, mixture);
    check_fractions(key, mixture.entries);
    return mixture;
  }
  if (key == "dataset_mixer") {
    mixture.mixing = Mixing::shares;
    mixture.seed = 42;
    if (!value.is_object() || value.empty())
      fail_key(key, "{}: it is a mapping from paths to their shares, not {}", key, shown(value.dump()));
    for (const auto& [path, share] : value.items()) {
      DatasetEntry& entry = mixture.entries.emplace_back();
      entry.path = path;
      entry.share = share_part(key, path, share, 1.0);
    }
    return mixture;
  }
  mixture.mixing = Mixing::weights;
  if (!value.is_object() || entry_part(value, "datasets") == nullptr)
    fail_key(key, "{}: it is a mapping with datasets", key);
  check_entry_names(key, value, {"datasets", "seed", "test_split_size"});
  parse_list(key, value["datasets"], mixture);
  if (mixture.entries.empty()) fail_key(key, "{}: datasets: the list is empty", key);
  if (const base::Json* seed = entry_part(value, "seed")) {
    if (!seed->is_number_integer() || seed->get<int64_t>() < 0)
      fail_entry_part(key, "seed", *seed, "an integer, 0 or more");
    mixture.seed = seed->get<uint64_t>();
  }
  if (const base::Json* size = entry_part(value, "test_split_size"))
    mixture.test_split_size = split_size(key, *size);
  return mixture;
}

bool names_mixture(std::string_view key) {
  return key == "datasets" || key == "dataset_mixer" || key == "dataset_mixture";
}

std::vector<std::string> check_mixture(std::string_view key, const base::Json& value) {
  parse_mixture(key, value);
  std::vector<std::string> warnings;
  const std::string_view name = entry_names(key).config;
  const base::Json* list = key == "datasets"   ? &value
                           : value.is_object() ? entry_part(value, "datasets")
                                               : nullptr;
  if (list == nullptr || key == "dataset_mixer") return warnings;
  for (const base::Json& entry : *list) {
    const base::Json* config = entry_part(entry, name);
    if (config != nullptr && !base::is_text(*config, "default") &&
        entry_part(entry, "data_files") != nullptr) {
      warnings.push_back(fmt::format("{}: {}: {} selects nothing: files are named directly", key, name,
                                     shown(config->dump())));
    }
  }
  return warnings;
}

}  // namespace trl::config
