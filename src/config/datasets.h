// Which rows a configuration names: one dataset_name, or a mixture: datasets (TRL), dataset_mixture (open-r1
// and alignment-handbook), dataset_mixer (alignment-handbook before it).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "config/config.h"

namespace trl::config {

struct DatasetEntry {
  std::string path;  // a file, a directory, a glob; or the loader (json, csv, text, parquet) of what follows
  std::string config;                   // a folder of it, which is then read alone; empty: none
  std::string data_dir;                 // empty: none
  std::vector<std::string> data_files;  // those of the split; empty: none are named
  std::string split = "train";          // of a directory whose files are named by split
  std::vector<std::string> columns;     // the only ones that are read; empty: all
  std::optional<double> share;          // fraction, weight
};

enum class Mixing : uint8_t {
  fractions,  // datasets: shares are those of the mixture; the first rows of each are kept
  weights,  // dataset_mixture: each that has a weight is shuffled, and its first rows are kept; then all are
            // shuffled
  shares,   // dataset_mixer: the first rows of each are kept; then all are shuffled
};

struct DatasetArguments {
  std::string key = "dataset_name";  // that names the rows, for messages
  std::vector<DatasetEntry> entries;
  Mixing mixing = Mixing::fractions;
  uint64_t seed = 0;                      // of the shuffles
  std::optional<double> test_split_size;  // below 1: a share of the rows
  uint64_t split_seed = 42;
  std::optional<DatasetEntry> eval;  // eval_dataset_name
  std::optional<DatasetEntry>
      eval_split;  // of the training rows' directory, if it has one and eval_strategy asks for it
  std::vector<DatasetEntry> eval_entries;  // of dataset_splits: shuffled together; each must be there
  bool streaming = false;
  std::vector<std::string> warnings;
  // Whether the rows come in an order that only all of them give: shares of a mixture, shuffles, a split.
  bool needs_all_rows() const;
};

// Throws Error(invalid_config): no rows are named, or what does not go together.
DatasetArguments dataset_arguments(const Config& config);

bool names_mixture(std::string_view key);
// Throws Error(invalid_config): an expression over splits (train[:10%], train+test).
void check_split(std::string_view key, std::string_view split);
// Throws Error(invalid_config) naming the entry. Returns warnings, each beginning with the key.
std::vector<std::string> check_mixture(std::string_view key, const base::Json& value);

}  // namespace trl::config
