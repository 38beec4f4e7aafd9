// Which rows a configuration names: one dataset_name, or a mixture: datasets (TRL), dataset_mixture (open-r1
// and alignment-handbook), dataset_mixer (alignment-handbook before it).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "config/mixture.h"

namespace trl::config {

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

}  // namespace trl::config
