// What a configuration names: files of directories, patterns and loaders, and mixtures of them.
#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "config/local_path.h"
#include "data/dataset_card.h"
#include "data/mixture.h"
#include "data/origin.h"
#include "data/split_origin.h"

namespace trl::data {

namespace {

using config::DatasetArguments;
using config::DatasetEntry;

// Of what an entry names: its path, or what data_dir and the configuration name in it.
std::string folder_of(const DatasetEntry& entry) {
  std::string folder = loader_format(entry.path) ? "" : entry.path;
  if (!entry.data_dir.empty()) folder = base::join_path(folder, entry.data_dir);
  if (entry.config.empty() || folder.empty() || !entry.data_files.empty()) return folder;
  std::string configuration = base::join_path(folder, entry.config);
  return base::is_directory(configuration) ? configuration : folder;
}

// A path that names no splits is the split train.
bool has_split(const std::string& path, std::string_view split) {
  return names_split(path, split) || (split == "train" && !names_splits(path));
}

// Warns about names of parts that do not exist.
void tell_unselected(std::string_view key, const DatasetEntry& entry, const std::string& path,
                     std::string_view split, base::LogSink& log) {
  if (!entry.config.empty() && entry.config != "default" && !path.ends_with("/" + entry.config)) {
    log.warning("data",
                "{}: the configuration '{}' selects nothing of {}, which does not have a folder of that name",
                key, entry.config, path);
  }
  if (split != "train" && split != "test" && !names_split(path, split)) {
    log.warning("data", "{}: the split '{}' selects nothing of {}: it is read whole", key, split, path);
  }
}

// The files of one split, or those of data_files that are its own.
std::shared_ptr<const Origin> open_split(std::string_view key, const DatasetEntry& entry,
                                         const std::string& split, base::LogSink& log) {
  const std::optional<FileFormat> format = loader_format(entry.path);
  const std::string folder = folder_of(entry);
  std::vector<std::string> paths;
  if (const auto own = entry.data_files.find(split); own != entry.data_files.end()) {
    for (const std::string& file : own->second) paths.push_back(base::join_path(folder, file));
  } else {
    if (folder.empty())
      fail_key(key, "{}: {} is a loader, which needs data_files or data_dir", key, entry.path);
    paths.push_back(folder);
  }
  std::vector<RowFile> files;
  for (const std::string& path : paths) {
    const bool glob = !base::file_exists(path) && path.find_first_of("*?[") != std::string::npos;
    if (!glob) config::check_local_path(key, path);
    const std::string whole = std::filesystem::absolute(path).string();  // they are read later
    for (RowFile& file : find_files(whole, split, format)) files.push_back(std::move(file));
    if (entry.data_files.empty()) tell_unselected(key, entry, path, split, log);
  }
  return files_origin(std::move(files), paths.front());
}

// If there are several splits, each must exist; otherwise the path would be read whole more than once.
void check_parts(const DatasetEntry& entry, const std::vector<config::SplitPart>& parts) {
  const std::string folder = folder_of(entry);
  for (const config::SplitPart& part : parts) {
    if (parts.size() == 1 || !entry.data_files.empty() || has_split(folder, part.name)) continue;
    fail_key(entry.split_key, "{}: '{}': {} has no split '{}'", entry.split_key, entry.split, folder,
             part.name);
  }
}

std::shared_ptr<const Origin> open_entry(std::string_view key, const DatasetEntry& entry,
                                         base::LogSink& log) {
  std::vector<config::SplitPart> parts = config::parse_split(entry.split_key, entry.split);
  check_parts(entry, parts);
  std::vector<std::shared_ptr<const Origin>> bases;
  for (const config::SplitPart& part : parts) bases.push_back(open_split(key, entry, part.name, log));
  return parts_origin(std::move(bases), std::move(parts), entry.split_key);
}

std::shared_ptr<const Origin> open_mixture(const DatasetArguments& arguments,
                                           const std::vector<DatasetEntry>& entries, base::LogSink& log) {
  std::vector<std::shared_ptr<const Origin>> origins;
  for (const DatasetEntry& entry : entries) origins.push_back(open_entry(arguments.key, entry, log));
  return mixture_origin(std::move(origins), arguments, entries, log);
}

bool has_all_splits(const DatasetEntry& entry) {
  if (!entry.data_files.empty()) return card_has_splits(entry);
  const std::vector<config::SplitPart> parts = config::parse_split(entry.split_key, entry.split);
  return std::all_of(parts.begin(), parts.end(),
                     [&](const auto& part) { return has_split(folder_of(entry), part.name); });
}

// If no split has that name, the rows to train on would also be those to evaluate.
void check_eval_split(const DatasetEntry& entry) {
  if (has_all_splits(entry)) return;
  fail_key("dataset_splits",
           "dataset_splits: '{}': {} has no files of that split; list splits to train on alone, or give "
           "eval_dataset_name or test_split_size",
           entry.split, folder_of(entry));
}

// Each entry with the files that the card of its directory names.
DatasetArguments with_cards(DatasetArguments arguments) {
  const auto apply = [&](std::string_view key, DatasetEntry& entry) {
    if (apply_card(key, entry)) check_card_splits(entry);
  };
  for (DatasetEntry& entry : arguments.entries) apply(arguments.key, entry);
  for (DatasetEntry& entry : arguments.eval_entries) apply("dataset_splits", entry);
  if (arguments.eval) apply("eval_dataset_name", *arguments.eval);
  if (arguments.eval_split && apply_card(arguments.key, *arguments.eval_split) &&
      !card_has_splits(*arguments.eval_split))
    arguments.eval_split.reset();
  return arguments;
}

}  // namespace

OpenedRows open_rows(const DatasetArguments& given, base::LogSink& log) {
  const DatasetArguments arguments = with_cards(given);
  for (const std::string& warning : arguments.warnings) log.warning("data", "{}", warning);
  OpenedRows opened;
  opened.train = arguments.key == "dataset_name" ? open_entry(arguments.key, arguments.entries.front(), log)
                                                 : open_mixture(arguments, arguments.entries, log);
  if (arguments.test_split_size) {
    const auto all = std::move(opened.train);
    const auto part = [&](bool test) {
      return split_origin(all, *arguments.test_split_size, arguments.split_seed, test);
    };
    opened.train = part(false);
    opened.eval = part(true);
  }
  if (arguments.eval) opened.eval = open_entry("eval_dataset_name", *arguments.eval, log);
  if (arguments.eval_split && has_all_splits(*arguments.eval_split))
    opened.eval = open_entry(arguments.key, *arguments.eval_split, log);
  for (const DatasetEntry& entry : arguments.eval_entries) check_eval_split(entry);
  if (!arguments.eval_entries.empty()) opened.eval = open_mixture(arguments, arguments.eval_entries, log);
  return opened;
}

}  // namespace trl::data
