#include "config/dataset/datasets.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "config/table/option_value.h"

namespace trl::config {

namespace {

DatasetEntry file_entry(const std::string& path, const Config& config, std::string_view split_key) {
  DatasetEntry entry;
  entry.path = path;
  entry.split = config.get(split_key);
  entry.split_key = split_key;
  parse_split(split_key, entry.split);
  return entry;
}

bool speaks_of(std::string_view split, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(
      words, [&](std::string_view word) { return split.find(word) != std::string_view::npos; });
}

// Takes the splits of each entry as alignment-handbook's mix_datasets does: those to train on, cut to the
// entry's share, and those to evaluate, whole.
void take_splits(const std::vector<std::string>& splits, DatasetArguments& out) {
  constexpr std::string_view kSplits = "dataset_splits";
  if (splits.empty()) return;
  if (out.key != "dataset_mixer") {
    fail_key(
        kSplits, "{}: it names the splits of dataset_mixer; with {} give {}", kSplits, out.key,
        out.key == "dataset_name" ? "dataset_train_split and dataset_test_split" : "the split of each entry");
  }
  for (const DatasetEntry& entry : std::exchange(out.entries, {})) {
    for (const std::string& split : splits) {
      parse_split(kSplits, split);
      const bool train = speaks_of(split, {"train"});
      if (!train && !speaks_of(split, {"test", "eval", "valid"})) {
        fail_key(kSplits,
                 "{}: {} is not accepted; give names with train, or with test, eval or valid for evaluation",
                 kSplits, shown(split));
      }
      DatasetEntry& taken = (train ? out.entries : out.eval_entries).emplace_back(entry);
      taken.split = split;
      taken.split_key = kSplits;
      if (!train) taken.share.reset();
    }
  }
  if (out.entries.empty())
    fail_key(kSplits, "{}: {} names no rows to train on; give a split whose name has train in it", kSplits,
             fmt::join(splits, ", "));
}

void take_configs(const std::vector<std::string>& configs, DatasetArguments& out) {
  constexpr std::string_view kConfigs = "dataset_configs";
  if (configs.empty()) return;
  if (out.key == "dataset_name" && configs.size() == 1) {
    if (configs.front() != "null") out.entries.front().config = out.eval_split->config = configs.front();
    return;
  }
  if (out.key != "dataset_mixer" || configs.size() != out.entries.size()) {
    fail_key(kConfigs, "{}: it names a configuration for each entry of dataset_mixer; there are {} for {}",
             kConfigs, configs.size(),
             out.key == "dataset_mixer" ? fmt::format("{} entries", out.entries.size()) : out.key);
  }
  for (size_t i = 0; i < configs.size(); ++i)
    if (configs[i] != "null") out.entries[i].config = configs[i];
}

// Checks a split as datasets does, in which a stream can only be read from its start.
void check_streamed_split(const DatasetEntry& entry) {
  for (const SplitPart& part : parse_split(entry.split_key, entry.split)) {
    if (part.sliced())
      fail_key(entry.split_key,
               "{}: the split {} is refused with streaming: give whole splits, or train without streaming",
               entry.split_key, shown(entry.split));
  }
}

void check_streaming(const DatasetArguments& arguments) {
  for (const DatasetEntry& entry : arguments.entries)
    if (arguments.streaming) check_streamed_split(entry);
  if (!arguments.streaming || !arguments.needs_all_rows()) return;
  fail_key(arguments.key,
           "{}: {} is refused with streaming: the order of the rows is known when all of them are",
           arguments.key,
           arguments.test_split_size               ? "a test split"
           : arguments.mixing == Mixing::fractions ? "a fraction"
                                                   : "a mixture that is shuffled");
}

}  // namespace

bool DatasetArguments::needs_all_rows() const {
  return test_split_size.has_value() || mixing != Mixing::fractions ||
         std::ranges::any_of(entries, [](const DatasetEntry& entry) { return entry.share.has_value(); });
}

DatasetArguments dataset_arguments(const Config& config) {
  DatasetArguments out;
  const std::optional<std::string> name = config.get_text("dataset_name");
  for (const std::string_view key : {"datasets", "dataset_mixture", "dataset_mixer"}) {
    Mixture mixture = parse_mixture(key, base::Json::parse(config.get(key)));
    if (mixture.entries.empty()) continue;
    if (!out.entries.empty()) fail_key(key, "{} and {} both name rows: give one of them", out.key, key);
    out.key = key;
    out.entries = std::move(mixture.entries);
    out.mixing = mixture.mixing;
    out.seed = mixture.seed;
    out.test_split_size = mixture.test_split_size;
  }
  if (!out.entries.empty() && name)
    out.warnings.push_back(
        fmt::format("{} and dataset_name are both given: dataset_name is not read", out.key));
  if (out.entries.empty()) {
    if (!name) fail_key("dataset_name", "no rows are named: give dataset_name, datasets or dataset_mixture");
    out.entries.push_back(file_entry(*name, config, "dataset_train_split"));
    out.eval_split = file_entry(*name, config, "dataset_test_split");
    out.entries.front().config = out.eval_split->config = config.get_text("dataset_config").value_or("");
  }
  take_configs(config.get_list("dataset_configs"), out);
  take_splits(config.get_list("dataset_splits"), out);
  out.streaming = config.get_bool("dataset_streaming") || config.get_bool("streaming");

  if (const std::optional<double> size = config.get_optional_double("test_split_size")) {
    if (out.test_split_size)
      fail_key("test_split_size", "test_split_size: {} has one of its own: give one of them", out.key);
    out.test_split_size = split_size("test_split_size", *size);
    out.split_seed = static_cast<uint64_t>(config.get_int("seed"));
  } else {
    out.split_seed = out.seed;
  }
  if (const std::optional<std::string> eval = config.get_text("eval_dataset_name")) {
    if (out.test_split_size)
      fail_key("eval_dataset_name",
               "eval_dataset_name and test_split_size both name evaluation rows: give one of them");
    out.eval = file_entry(*eval, config, "dataset_test_split");
    out.eval->is_evaluated = true;
  }
  if (out.eval || out.test_split_size || config.get("eval_strategy") == "no") {
    out.eval_split.reset();
    out.eval_entries.clear();
  }
  check_streaming(out);
  return out;
}

}  // namespace trl::config
