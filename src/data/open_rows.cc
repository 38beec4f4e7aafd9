// What a configuration names: files of directories, patterns and loaders, and mixtures of them.
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "config/local_path.h"
#include "data/mixture.h"
#include "data/origin.h"

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

// What names parts that are not there.
void tell_unselected(std::string_view key, const DatasetEntry& entry, const std::string& path,
                     base::LogSink& log) {
  if (!entry.config.empty() && entry.config != "default" && !path.ends_with("/" + entry.config)) {
    log.warning("data", "{}: the configuration '{}' selects nothing of {}, which has no such folder", key,
                entry.config, path);
  }
  if (entry.split != "train" && entry.split != "test" && !names_split(path, entry.split)) {
    log.warning("data", "{}: the split '{}' selects nothing of {}: it is read whole", key, entry.split, path);
  }
}

std::shared_ptr<const Origin> open_entry(std::string_view key, const DatasetEntry& entry,
                                         base::LogSink& log) {
  config::check_split(key, entry.split);
  const std::optional<FileFormat> format = loader_format(entry.path);
  const std::string folder = folder_of(entry);
  std::vector<std::string> paths;
  for (const std::string& file : entry.data_files) paths.push_back(base::join_path(folder, file));
  if (paths.empty()) {
    if (folder.empty())
      fail_key(key, "{}: {} is a loader, which needs data_files or data_dir", key, entry.path);
    paths.push_back(folder);
  }
  std::vector<RowFile> files;
  for (const std::string& path : paths) {
    const bool glob = !base::file_exists(path) && path.find_first_of("*?[") != std::string::npos;
    if (!glob) config::check_local_path(key, path);
    for (RowFile& file : find_files(path, entry.split, format)) files.push_back(std::move(file));
    if (entry.data_files.empty()) tell_unselected(key, entry, path, log);
  }
  return files_origin(std::move(files), paths.front());
}

std::shared_ptr<const Origin> open_mixture(const DatasetArguments& arguments,
                                           const std::vector<DatasetEntry>& entries, base::LogSink& log) {
  std::vector<std::shared_ptr<const Origin>> origins;
  for (const DatasetEntry& entry : entries) origins.push_back(open_entry(arguments.key, entry, log));
  return mixture_origin(std::move(origins), arguments, entries, log);
}

// A file, or a directory that names no splits, would be evaluated on what is trained on.
void check_eval_split(const DatasetEntry& entry) {
  const std::string folder = folder_of(entry);
  if (names_split(folder, entry.split)) return;
  fail_key("dataset_splits",
           "dataset_splits: '{}': {} has no files of that split; list splits to train on alone, or give "
           "eval_dataset_name or test_split_size",
           entry.split, folder);
}

}  // namespace

OpenedRows open_rows(const DatasetArguments& arguments, base::LogSink& log) {
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
  if (arguments.eval_split && names_split(folder_of(*arguments.eval_split), arguments.eval_split->split))
    opened.eval = open_entry(arguments.key, *arguments.eval_split, log);
  for (const DatasetEntry& entry : arguments.eval_entries) check_eval_split(entry);
  if (!arguments.eval_entries.empty()) opened.eval = open_mixture(arguments, arguments.eval_entries, log);
  return opened;
}

}  // namespace trl::data
