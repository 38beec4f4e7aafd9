// Finds the files that a path names, and their formats.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trl::data {

enum class FileFormat : uint8_t { json, csv, tsv, text, parquet };

struct RowFile {
  std::string path;
  FileFormat format;
};

// Reads "json", "csv", "text", "parquet": the names of the loaders of datasets; nullopt: another word.
std::optional<FileFormat> loader_format(std::string_view name);

// Finds the file; the files of a directory and of its folders; or the matches of a glob (* ? [] **): sorted
// by name. If the files or folders of a directory are named by split (train-00000.jsonl, test/a.jsonl), only
// those of `split`. format: the format of all files; nullopt: by the ending before .gz or .zst; a single file
// with another ending is JSON. Throws not_found, and unsupported for a format that is not read.
std::vector<RowFile> find_files(const std::string& path, std::string_view split = "train",
                                std::optional<FileFormat> format = {});
bool names_split(const std::string& directory, std::string_view split);  // whether such files exist
// Returns the splits with usual names whose files exist; a path that names no split is the split train.
std::vector<std::string> splits_in(const std::string& path);

// Identifies the state of these files: their paths, sizes and times. Throws if one does not exist.
std::string files_stamp(const std::vector<RowFile>& files);

}  // namespace trl::data
