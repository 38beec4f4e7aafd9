#include "config/datasets.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/json/is_text.h"
#include "base/text/nearest.h"
#include "config/option_value.h"
#include "config/yaml.h"

namespace trl::config {

namespace {

using base::Json;

// The names that the two families give the parts of an entry.
struct EntryNames {
  std::string_view path, config, share;
  std::vector<std::string_view> all;
};
const EntryNames& entry_names(std::string_view key) {
  static const EntryNames kTrl{
      "path", "name", "fraction", {"path", "name", "data_dir", "data_files", "split", "columns", "fraction"}};
  static const EntryNames kMixture{"id", "config", "weight", {"id", "config", "split", "columns", "weight"}};
  return key == "datasets" ? kTrl : kMixture;
}

void check_names(std::string_view key, const Json& entry, const std::vector<std::string_view>& names) {
  for (const auto& [name, value] : entry.items())
    if (std::ranges::find(names, name) == names.end())
      fail_key(key, "{}: unknown entry {}; give {}", key, shown(name), base::join(names));
}

const Json* part(const Json& entry, std::string_view name) {
  const auto found = entry.find(name);
  return found == entry.end() || found->is_null() ? nullptr : &*found;
}

[[noreturn]] void fail_part(std::string_view key, std::string_view name, const Json& value,
                            std::string_view accepted) {
  fail_key(key, "{}: {}: {} is not accepted; give {}", key, name, shown(value.dump()), accepted);
}

std::string text_part(std::string_view key, std::string_view name, const Json& entry,
                      std::string_view fallback) {
  const Json* value = part(entry, name);
  if (value == nullptr) return std::string(fallback);
  if (!value->is_string()) fail_part(key, name, *value, "text");
  return value->get<std::string>();
}

std::vector<std::string> texts(std::string_view key, std::string_view name, const Json& value) {
  if (value.is_string()) return {value.get<std::string>()};
  const bool list = value.is_array() && !value.empty() &&
                    std::ranges::all_of(value, [](const Json& item) { return item.is_string(); });
  if (!list) fail_part(key, name, value, "a list of names");
  return value.get<std::vector<std::string>>();
}

double share_part(std::string_view key, std::string_view name, const Json& value, double most) {
  if (!value.is_number() || !(value.get<double>() >= 0) || value.get<double>() > most)
    fail_part(key, name, value, std::isinf(most) ? "a number, 0 or more" : "a number from 0 to 1");
  return value.get<double>();
}

std::string split_part(std::string_view key, const Json& entry) {
  std::string split = text_part(key, "split", entry, "train");
  parse_split(key, split);
  return split;
}

// Reads a name, a list of names, or a mapping from splits to these.
void read_data_files(std::string_view key, const Json& files, DatasetEntry& entry) {
  for (const SplitPart& part : parse_split(key, entry.split)) {
    const Json* of_split = &files;
    if (files.is_object()) {
      const auto found = files.find(part.name);
      if (found == files.end())
        fail_part(key, "data_files", files, fmt::format("files of the split '{}'", part.name));
      of_split = &*found;
    } else if (part.name != "train") {
      fail_key(key, "{}: split: {} is not accepted; data_files without splits are those of 'train'", key,
               shown(part.name));
    }
    entry.data_files[part.name] = texts(key, "data_files", *of_split);
  }
}

// Reads an entry, which may hold the parts of TRL's DatasetConfig and of open-r1's; a part that would select
// rows in an unsupported way is refused.
DatasetEntry parse_entry(std::string_view key, const Json& value) {
  const EntryNames& names = entry_names(key);
  if (!value.is_object())
    fail_key(key, "{}: an entry is a mapping with {}, not {}", key, names.path, shown(value.dump()));
  check_names(key, value, names.all);
  DatasetEntry entry;
  entry.path = text_part(key, names.path, value, "");
  if (entry.path.empty()) fail_key(key, "{}: {} is missing", key, names.path);
  entry.config = text_part(key, names.config, value, "");
  entry.data_dir = text_part(key, "data_dir", value, "");
  entry.split = split_part(key, value);
  entry.split_key = key;
  if (const Json* files = part(value, "data_files")) read_data_files(key, *files, entry);
  if (const Json* columns = part(value, "columns")) {
    if (!columns->is_array()) fail_part(key, "columns", *columns, "a list of names");
    entry.columns = texts(key, "columns", *columns);
  }
  if (const Json* share = part(value, names.share))
    entry.share = share_part(key, names.share, *share, key == "datasets" ? INFINITY : 1.0);
  return entry;
}

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

void parse_list(std::string_view key, const Json& list, Mixture& mixture) {
  if (!list.is_array()) fail_key(key, "{}: it is a list of mappings, not {}", key, shown(list.dump()));
  for (const Json& entry : list) mixture.entries.push_back(parse_entry(key, entry));
}

using base::Json;

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

double split_size(std::string_view key, const Json& value) {
  const double size = value.is_number() ? value.get<double>() : NAN;
  if (!(size > 0) || (size >= 1 && size != std::floor(size))) {
    fail_key(key, "test_split_size: {} is not accepted; give a number of rows, or a share below 1",
             shown(value.dump()));
  }
  return size;
}

Mixture parse_mixture(std::string_view key, const Json& value) {
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
  if (!value.is_object() || part(value, "datasets") == nullptr)
    fail_key(key, "{}: it is a mapping with datasets", key);
  check_names(key, value, {"datasets", "seed", "test_split_size"});
  parse_list(key, value["datasets"], mixture);
  if (mixture.entries.empty()) fail_key(key, "{}: datasets: the list is empty", key);
  if (const Json* seed = part(value, "seed")) {
    if (!seed->is_number_integer() || seed->get<int64_t>() < 0)
      fail_part(key, "seed", *seed, "an integer, 0 or more");
    mixture.seed = seed->get<uint64_t>();
  }
  if (const Json* size = part(value, "test_split_size")) mixture.test_split_size = split_size(key, *size);
  return mixture;
}

Json mixture_schema(std::string_view key) {
  Json share = Json::parse(R"({"type": ["number", "null"], "minimum": 0})");
  if (key != "datasets") share["maximum"] = 1;
  if (key == "dataset_mixer") {
    share["type"] = "number";
    return {{"type", "object"}, {"additionalProperties", share}, {"minProperties", 1}};
  }
  const EntryNames& names = entry_names(key);
  Json parts = Json::object();
  for (const std::string_view name : names.all)
    parts[std::string(name)] = Json::parse(R"({"type": ["string", "null"]})");
  parts[std::string(names.path)] = Json::parse(R"({"type": "string", "minLength": 1})");
  parts["columns"] =
      Json::parse(R"({"type": ["array", "null"], "items": {"type": "string"}, "minItems": 1})");
  parts[std::string(names.share)] = share;
  if (key == "datasets")
    parts["data_files"] = Json::parse(R"({"type": ["string", "array", "object", "null"], "minItems": 1})");
  Json list = Json::parse(R"({"type": "array", "items": {"type": "object", "additionalProperties": false}})");
  list["items"]["properties"] = std::move(parts);
  list["items"]["required"] = Json::array({names.path});
  if (key == "datasets") return list;
  list["minItems"] = 1;
  Json mixture = Json::parse(R"({"type": "object", "required": ["datasets"], "additionalProperties": false,
    "properties": {"seed": {"type": ["integer", "null"], "minimum": 0},
                   "test_split_size": {"type": ["number", "null"], "exclusiveMinimum": 0}}})");
  mixture["properties"]["seed"]["maximum"] = INT64_MAX;
  mixture["properties"]["datasets"] = std::move(list);
  return mixture;
}

bool names_mixture(std::string_view key) {
  return key == "datasets" || key == "dataset_mixer" || key == "dataset_mixture";
}

std::vector<std::string> check_mixture(std::string_view key, const Json& value) {
  parse_mixture(key, value);
  std::vector<std::string> warnings;
  const std::string_view name = entry_names(key).config;
  const Json* list = key == "datasets" ? &value : value.is_object() ? part(value, "datasets") : nullptr;
  if (list == nullptr || key == "dataset_mixer") return warnings;
  for (const Json& entry : *list) {
    const Json* config = part(entry, name);
    if (config != nullptr && !base::is_text(*config, "default") && part(entry, "data_files") != nullptr) {
      warnings.push_back(fmt::format("{}: {}: {} selects nothing: files are named directly", key, name,
                                     shown(config->dump())));
    }
  }
  return warnings;
}

bool DatasetArguments::needs_all_rows() const {
  return test_split_size.has_value() || mixing != Mixing::fractions ||
         std::ranges::any_of(entries, [](const DatasetEntry& entry) { return entry.share.has_value(); });
}

DatasetArguments dataset_arguments(const Config& config) {
  DatasetArguments out;
  const std::optional<std::string> name = config.get_text("dataset_name");
  for (const std::string_view key : {"datasets", "dataset_mixture", "dataset_mixer"}) {
    Mixture mixture = parse_mixture(key, Json::parse(config.get(key)));
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
