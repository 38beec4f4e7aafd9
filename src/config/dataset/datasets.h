// The rows that a configuration names: one dataset_name, or a mixture: datasets (TRL), dataset_mixture
// (open-r1 and alignment-handbook), dataset_mixer (alignment-handbook before it).
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json/json.h"
#include "config/config.h"

namespace trl::config {

// Selects rows of a dataset's splits, in the notation of the datasets library: train, train[:10%],
// train[100:200]+test, train[:5%](pct1_dropremainder).
struct SplitPart {
  std::string name;
  std::optional<int64_t> from, to;  // rows, or hundredths of them; negative: from the end
  bool percent = false;
  bool drop_remainder = false;  // pct1_dropremainder: a hundredth is rounded down before it is multiplied
  bool sliced() const { return from.has_value() || to.has_value(); }
};

// Returns at least one part. Throws Error(invalid_config) with the key.
std::vector<SplitPart> parse_split(std::string_view key, std::string_view split);

// The first row and the one after the last, out of this many (as in datasets' arrow_reader.py: hundredths are
// rounded half to even). Throws Error(invalid_config) if pct1_dropremainder is used with fewer than 100 rows.
struct RowRange {
  int64_t from = 0, to = 0;
};
RowRange rows_of(std::string_view key, const SplitPart& part, int64_t rows);

struct DatasetEntry {
  // A file, a directory, a glob; or the loader (json, csv, text, parquet) of data_dir or data_files.
  std::string path;
  std::string config;    // a folder of it, the only one read; empty: none
  std::string data_dir;  // empty: none
  std::map<std::string, std::vector<std::string>> data_files;  // by split; empty: none are named
  // A split of a directory whose files are named by split; parse_split().
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
base::Json mixture_schema(std::string_view key);  // of a value of a key that names one

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
