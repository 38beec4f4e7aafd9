// The rows that a configuration names: one dataset_name, or a mixture: datasets (TRL), dataset_mixture
// (open-r1 and alignment-handbook), dataset_mixer (alignment-handbook before it).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "config/mixture.h"

namespace trl::config {

struct DatasetArguments {
  std::string key = "dataset_name";  // the key that names the rows, for messages
  std::vector<DatasetEntry> entries;
  Mixing mixing = Mixing::fractions;
  uint64_t seed = 0;                      // seed of the shuffles
  std::optional<double> test_split_size;  // below 1: a share of the rows
  uint64_t split_seed = 42;
  std::optional<DatasetEntry> eval;  // eval_dataset_name
  // A split of the training rows' directory, if it has one and eval_strategy asks for it.
  std::optional<DatasetEntry> eval_split;
  std::vector<DatasetEntry> eval_entries;  // dataset_splits: shuffled together; each must exist
  bool streaming = false;
  std::vector<std::string> warnings;
  // Returns whether the order of the rows depends on all of them: shares of a mixture, shuffles, a split.
  bool needs_all_rows() const;
};

// Throws Error(invalid_config) if no rows are named, or options contradict each other.
DatasetArguments dataset_arguments(const Config& config);

}  // namespace trl::config
