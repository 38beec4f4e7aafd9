// Which files a path names, and what is in them.
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

// "json", "csv", "text", "parquet": as the loaders of datasets are called; nullopt: another word.
std::optional<FileFormat> loader_format(std::string_view name);

// The file; the files of a directory and the folders in it; or those that a glob (* ? [] **) matches: sorted
// by name. Where the files or folders of a directory are named by split (train-00000.jsonl, test/a.jsonl),
// those of `split`. format: the format of all files; none: by the ending before .gz or .zst; a single file
// with another ending is JSON. Throws not_found, and unsupported for a format that is not read.
std::vector<RowFile> find_files(const std::string& path, std::string_view split = "train",
                                std::optional<FileFormat> format = {});
bool names_split(const std::string& directory, std::string_view split);  // whether such files are there
// The splits with usual names whose files are there; a path that names none is the split train.
std::vector<std::string> splits_in(const std::string& path);

// Tells whether these files are still what they were: their paths, sizes and times. Throws where one is not
// there.
std::string files_stamp(const std::vector<RowFile>& files);

}  // namespace trl::data
