// Opens the rows that a configuration names: files of directories, patterns and loaders, and mixtures of
// them.
#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "base/error.h"
#include "base/files/files.h"
#include "config/sizes_and_paths.h"
#include "data/source/dataset_card.h"
#include "data/source/derived_origin.h"
#include "data/source/origin.h"

namespace trl::data {

namespace {

using config::DatasetArguments;
using config::DatasetEntry;

// Returns the folder of an entry: its path, with data_dir or the configuration in it.
std::string folder_of(const DatasetEntry& entry) {
  std::string folder = loader_format(entry.path) ? "" : entry.path;
  if (!entry.data_dir.empty()) folder = base::join_path(folder, entry.data_dir);
  if (entry.config.empty() || folder.empty() || !entry.data_files.empty()) return folder;
  std::string configuration = base::join_path(folder, entry.config);
  return base::is_directory(configuration) ? configuration : folder;
}

bool is_glob(const std::string& path) {
  return !base::file_exists(path) && path.find_first_of("*?[") != std::string::npos;
}

void check_path(std::string_view key, const std::string& path) {
  if (!is_glob(path)) config::check_local_path(key, path);
}

std::vector<std::string> splits_of(const DatasetEntry& entry) {
  if (entry.data_files.empty()) return splits_in(folder_of(entry));
  std::vector<std::string> names;
  for (const auto& [name, files] : entry.data_files) names.push_back(name);
  return names;
}

bool has_split(const DatasetEntry& entry, const std::string& split) {
  const std::vector<std::string> splits = splits_of(entry);
  return std::ranges::find(splits, split) != splits.end() ||
         (entry.data_files.empty() && names_split(folder_of(entry), split));
}

bool has_all_splits(const DatasetEntry& entry) {
  const std::vector<config::SplitPart> parts = config::parse_split(entry.split_key, entry.split);
  return std::ranges::all_of(parts, [&](const auto& part) { return has_split(entry, part.name); });
}

void check_splits(const DatasetEntry& entry, const std::vector<config::SplitPart>& parts) {
  const std::vector<std::string> splits = splits_of(entry);
  for (const config::SplitPart& part : parts) {
    const bool whole =
        entry.is_evaluated && part.name == "test" && splits == std::vector<std::string>{"train"};
    if (whole || has_split(entry, part.name)) continue;
    fail_key(entry.split_key, "{}: '{}': {} has no split '{}'; it has: {}", entry.split_key, entry.split,
             entry.data_files.empty() ? folder_of(entry) : "data_files", part.name, fmt::join(splits, ", "));
  }
}

void tell_unselected(std::string_view key, const DatasetEntry& entry, const std::string& path,
                     base::LogSink& log) {
  if (entry.config.empty() || entry.config == "default" || path.ends_with("/" + entry.config)) return;
  log.warning("data",
              "{}: the configuration '{}' selects nothing of {}, which does not have a folder of that name",
              key, entry.config, path);
}

// Opens the rows that a configuration names. Files that are named twice, as in train[:90%] and train[90%:],
// are one origin, and read once.
class Opener {
 public:
  explicit Opener(base::LogSink& log) : log_(log) {}
  std::shared_ptr<const Origin> entry(std::string_view key, const DatasetEntry& entry);

 private:
  std::shared_ptr<const Origin> split(std::string_view key, const DatasetEntry& entry,
                                      const std::string& split);
  base::LogSink& log_;
  std::map<std::string, std::shared_ptr<const Origin>> opened_;  // by format and files
};

// Opens the files of one split, or that split's own files of data_files.
std::shared_ptr<const Origin> Opener::split(std::string_view key, const DatasetEntry& entry,
                                            const std::string& split) {
  const std::optional<FileFormat> format = loader_format(entry.path);
  const std::string folder = folder_of(entry);
  std::vector<std::string> paths;
  if (const auto own = entry.data_files.find(split); own != entry.data_files.end())
    for (const std::string& file : own->second) paths.push_back(base::join_path(folder, file));
  else
    paths.push_back(folder);
  std::vector<RowFile> files;
  std::string names;
  for (const std::string& path : paths) {
    if (!entry.data_files.empty()) check_path(key, path);
    const std::string whole = std::filesystem::absolute(path).string();  // they are read later
    for (RowFile& file : find_files(whole, split, format)) {
      names += fmt::format("{} {}\n", static_cast<int>(file.format), file.path);
      files.push_back(std::move(file));
    }
    if (entry.data_files.empty()) tell_unselected(key, entry, path, log_);
  }
  std::shared_ptr<const Origin>& origin = opened_[names];
  if (origin == nullptr) origin = files_origin(std::move(files), paths.front());
  return origin;
}

std::shared_ptr<const Origin> Opener::entry(std::string_view key, const DatasetEntry& entry) {
  if (entry.data_files.empty()) {
    if (folder_of(entry).empty())
      fail_key(key, "{}: {} is a loader, which needs data_files or data_dir", key, entry.path);
    check_path(key, folder_of(entry));
  }
  std::vector<config::SplitPart> parts = config::parse_split(entry.split_key, entry.split);
  check_splits(entry, parts);
  std::vector<std::shared_ptr<const Origin>> bases;
  for (const config::SplitPart& part : parts) bases.push_back(split(key, entry, part.name));
  return parts_origin(std::move(bases), std::move(parts), entry.split_key);
}

std::shared_ptr<const Origin> open_mixture(Opener& opener, const DatasetArguments& arguments,
                                           const std::vector<DatasetEntry>& entries, base::LogSink& log) {
  std::vector<std::shared_ptr<const Origin>> origins;
  for (const DatasetEntry& entry : entries) origins.push_back(opener.entry(arguments.key, entry));
  return mixture_origin(std::move(origins), arguments, entries, log);
}

// Refuses an unknown split name: the rows to train on would be evaluated too.
void check_eval_split(const DatasetEntry& entry) {
  if (has_all_splits(entry)) return;
  fail_key("dataset_splits",
           "dataset_splits: '{}': {} has no files of that split; it has: {}. List splits to train on alone, "
           "or give eval_dataset_name or test_split_size",
           entry.split, folder_of(entry), fmt::join(splits_of(entry), ", "));
}

void refuse_host_paths(std::string_view key, const DatasetEntry& entry) {
  config::refuse_host_path(key, entry.path);
  config::refuse_host_path(key, entry.data_dir);
  for (const auto& [split, files] : entry.data_files)
    for (const std::string& file : files) config::refuse_host_path(key, file);
}

// Returns each entry with the files that the card of its directory names.
DatasetArguments with_cards(DatasetArguments arguments) {
  const auto apply = [&](std::string_view key, DatasetEntry& entry) {
    refuse_host_paths(key, entry);
    if (apply_card(key, entry)) check_card_splits(entry);
  };
  for (DatasetEntry& entry : arguments.entries) apply(arguments.key, entry);
  for (DatasetEntry& entry : arguments.eval_entries) apply("dataset_splits", entry);
  if (arguments.eval) apply("eval_dataset_name", *arguments.eval);
  if (arguments.eval_split) apply_card(arguments.key, *arguments.eval_split);
  return arguments;
}

}  // namespace

OpenedRows open_rows(const DatasetArguments& given, base::LogSink& log) {
  const DatasetArguments arguments = with_cards(given);
  for (const std::string& warning : arguments.warnings) log.warning("data", "{}", warning);
  Opener opener(log);
  OpenedRows opened;
  opened.train = arguments.key == "dataset_name" ? opener.entry(arguments.key, arguments.entries.front())
                                                 : open_mixture(opener, arguments, arguments.entries, log);
  if (arguments.test_split_size) {
    const auto all = std::move(opened.train);
    const auto part = [&](bool test) {
      return split_origin(all, *arguments.test_split_size, arguments.split_seed, test);
    };
    opened.train = part(false);
    opened.eval = part(true);
  }
  if (arguments.eval) opened.eval = opener.entry("eval_dataset_name", *arguments.eval);
  // The default was not requested: without such a split, the run has no rows to evaluate.
  if (arguments.eval_split &&
      (arguments.eval_split->split != "test" || has_split(*arguments.eval_split, "test")))
    opened.eval = opener.entry(arguments.key, *arguments.eval_split);
  for (const DatasetEntry& entry : arguments.eval_entries) check_eval_split(entry);
  if (!arguments.eval_entries.empty())
    opened.eval = open_mixture(opener, arguments, arguments.eval_entries, log);
  return opened;
}

}  // namespace trl::data
