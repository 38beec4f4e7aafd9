// A mixture of datasets: the values of datasets (TRL), dataset_mixture (open-r1) and dataset_mixer
// (alignment-handbook).
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"

namespace trl::config {

struct DatasetEntry {
  // A file, a directory, a glob; or the loader (json, csv, text, parquet) of data_dir or data_files.
  std::string path;
  std::string config;    // a folder of it, the only one read; empty: none
  std::string data_dir;  // empty: none
  std::map<std::string, std::vector<std::string>> data_files;  // by split; empty: none are named
  // A split of a directory whose files are named by split; split.h.
  std::string split = "train";
  std::string split_key = "dataset_train_split";  // the key that names it, for messages
  // eval_dataset_name: without splits, all of it is the split test.
  bool is_evaluated = false;
  std::vector<std::string> columns;  // the only columns read; empty: all
  std::optional<double> share;       // fraction, weight
};

enum class Mixing : uint8_t {
  // datasets: shares are those of the mixture; the first rows of each dataset are kept.
  fractions,
  // dataset_mixture: each dataset that has a weight is shuffled, and its first rows are kept; then all are
  // shuffled.
  weights,
  // dataset_mixer: the first rows of each dataset are kept; then all are shuffled.
  shares,
};

struct Mixture {
  std::vector<DatasetEntry> entries;
  Mixing mixing = Mixing::fractions;
  uint64_t seed = 0;
  std::optional<double> test_split_size;
};

// Parses a mixture. These functions throw Error(invalid_config), naming the entry.
Mixture parse_mixture(std::string_view key, const base::Json& value);
double split_size(std::string_view key, const base::Json& value);  // test_split_size
// Returns warnings, each beginning with the key.
std::vector<std::string> check_mixture(std::string_view key, const base::Json& value);
bool names_mixture(std::string_view key);

}  // namespace trl::config
