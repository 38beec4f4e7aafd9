// See row_files.h. Names of splits, and the files that hold no rows, are those of datasets (data_files.py).
#include "data/source/row_files.h"

#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/files/files.h"
#include "base/text/utf8.h"
#include "io/stream.h"

namespace trl::data {

namespace {

constexpr std::string_view kKnown = "JSON Lines, JSON, CSV and plain text, each plain, .gz or .zst";

struct Ending {
  std::string_view text;
  FileFormat format;
};
constexpr std::array kEndings = {Ending{".jsonl", FileFormat::json},     Ending{".json", FileFormat::json},
                                 Ending{".ndjson", FileFormat::json},    Ending{".csv", FileFormat::csv},
                                 Ending{".tsv", FileFormat::tsv},        Ending{".txt", FileFormat::text},
                                 Ending{".parquet", FileFormat::parquet}};

// Binary formats, named for a better message than a syntax error.
constexpr std::array<std::string_view, 13> kForeign = {".arrow", ".xlsx", ".feather", ".zip", ".tar",
                                                       ".bz2",   ".xz",   ".lz4",     ".orc", ".db",
                                                       ".sql",   ".pkl",  ".pdf"};
struct Magic {
  std::string_view bytes, what;
};
constexpr std::array kForeignMagic = {Magic{"PAR1", "a Parquet file"},
                                      Magic{"ARROW1", "an Arrow file"},
                                      Magic{"%PDF-", "a PDF document"},
                                      Magic{"PK\x03\x04", "a ZIP archive or an office document"},
                                      Magic{"BZh", "a bzip2 archive"},
                                      Magic{"\xFD"
                                            "7zXZ",
                                            "an xz archive"},
                                      Magic{"\x7F"
                                            "ELF",
                                            "a program"},
                                      Magic{"\x89PNG", "a picture"},
                                      Magic{"\xFF\xD8\xFF", "a picture"},
                                      Magic{"GGUF", "a model (GGUF)"},
                                      Magic{"SQLite format 3", "an SQLite database"}};
constexpr std::array<std::string_view, 6> kNoRows = {"README.md",         "config.json",
                                                     "dataset_info.json", "dataset_infos.json",
                                                     "dummy_data.zip",    "dataset_dict.json"};

[[noreturn]] void fail_parquet(const std::string& path) {
  fail(Status::unsupported,
       "{}: Parquet is not read by this build; bash examples/setup.sh --parquet brings Arrow and builds with "
       "it. Or convert the file: python3 -c \"import pandas; pandas.read_parquet('{}').to_json('rows.jsonl', "
       "orient='records', lines=True)\"",
       Place::in(path), path);
}

std::optional<FileFormat> format_by_name(std::string_view path) {
  for (const std::string_view compressed : {".gz", ".zst"})
    if (path.ends_with(compressed)) path.remove_suffix(compressed.size());
  for (const Ending& ending : kEndings)
    if (path.ends_with(ending.text)) return ending.format;
  return std::nullopt;
}

void refuse_foreign(const std::string& path) {
  for (const std::string_view ending : kForeign)
    if (path.ends_with(ending))
      fail(Status::unsupported, "{}: {} files are not read; {} are", Place::in(path), ending, kKnown);
}

// Returns the file with the given format or that of its name; refuses contents that are not rows.
RowFile row_file(const std::string& path, std::optional<FileFormat> format) {
  if (!format) refuse_foreign(path);
  const FileFormat known = format ? *format : format_by_name(path).value_or(FileFormat::json);
#ifndef TRL_ARROW
  if (known == FileFormat::parquet) fail_parquet(path);
#endif
  if (known == FileFormat::parquet || io::is_read_once(path)) return {path, known};
  char start[512];
  const auto stream = io::open_file_stream(path);
  const std::string_view bytes(start, stream->read(start, sizeof start));
  for (const Magic& magic : kForeignMagic) {
    if (!bytes.starts_with(magic.bytes)) continue;
    if (magic.bytes == "PAR1") fail_parquet(path);
    fail(Status::unsupported, "{}: is {}, not rows; {} are read", Place::in(path), magic.what, kKnown);
  }
  const bool binary = bytes.find('\0') != std::string_view::npos &&
                      base::find_invalid_utf8(bytes.substr(0, bytes.find('\n'))) != base::kValid;
  if (binary)
    fail(Status::unsupported, "{}: is a binary file, not rows; {} are read", Place::in(path), kKnown);
  return {path, known};
}

// Finds files below a directory whose names match the parts of a pattern from one on; ** is any number of
// folders.
void match(const std::string& directory, const std::vector<std::string>& parts, size_t at,
           std::set<std::string>& found) {
  if (!base::is_directory(directory)) return;
  const std::string& part = parts[at];
  const bool last = at + 1 == parts.size();
  const bool any = part == "**";
  if (any && !last) match(directory, parts, at + 1, found);
  const bool plain = part.find_first_of("*?[") == std::string::npos;
  std::error_code none;  // a file that cannot be examined is not found
  for (const std::string& name : plain ? std::vector{part} : base::list_directory(directory)) {
    if (!plain && ::fnmatch(any ? "*" : part.c_str(), name.c_str(), FNM_PERIOD) != 0) continue;
    const std::string path = base::join_path(directory, name);
    if (last && std::filesystem::is_regular_file(path, none)) found.insert(path);
    if (any && !std::filesystem::is_symlink(path)) match(path, parts, at, found);  // no cycles
    if (!any && !last) match(path, parts, at + 1, found);
  }
}

std::vector<std::string> glob(const std::string& pattern) {
  std::vector<std::string> parts;
  for (const auto& part : std::filesystem::path(pattern).relative_path()) parts.push_back(part.string());
  std::set<std::string> found;
  match(pattern.starts_with('/') ? "/" : ".", parts, 0, found);
  std::vector<std::string> paths;
  const bool dotted = pattern.starts_with('/') || pattern.starts_with("./");
  for (const std::string& path : found) paths.push_back(dotted ? path : path.substr(2));
  return paths;
}

// Returns the split of a name, by its first word that names a split; empty: no split.
std::string_view split_of(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kWords = {
      {{"train", "train"},
       {"training", "train"},
       {"validation", "validation"},
       {"valid", "validation"},
       {"dev", "validation"},
       {"val", "validation"},
       {"test", "test"},
       {"testing", "test"},
       {"eval", "test"},
       {"evaluation", "test"}}};
  while (!name.empty()) {
    const size_t end = std::min(name.find_first_of("-._ 0123456789"), name.size());
    for (const auto& [word, split] : kWords)
      if (name.substr(0, end) == word) return split;
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return {};
}

// Returns the split of each file, by the folders between it and the directory, or else by its own name.
std::vector<std::string_view> splits_of(const std::vector<std::string>& files, size_t directory) {
  std::vector<std::string_view> by_folder(files.size()), by_name(files.size());
  for (size_t i = 0; i < files.size(); ++i) {
    std::string_view rest = std::string_view(files[i]).substr(directory);
    for (size_t slash; (slash = rest.find('/')) != std::string_view::npos; rest.remove_prefix(slash + 1))
      if (by_folder[i].empty()) by_folder[i] = split_of(rest.substr(0, slash));
    by_name[i] = split_of(rest);
  }
  const bool folders = std::ranges::any_of(by_folder, [](std::string_view split) { return !split.empty(); });
  return folders ? by_folder : by_name;
}

std::vector<std::string> files_below(const std::string& directory) {
  std::set<std::string> found;
  match(directory, {"**"}, 0, found);
  std::vector<std::string> files;
  for (const std::string& path : found) {
    const std::string name = base::file_name(path);
    if (name.starts_with('_') || std::ranges::find(kNoRows, name) != kNoRows.end()) continue;
    files.push_back(path);
  }
  return files;
}

// Returns the files of a split with an unusual name (train_sft-00000-of-00002.jsonl, train_sft/a.jsonl).
std::vector<std::string> files_named(const std::string& directory, const std::vector<std::string>& files,
                                     std::string_view split) {
  std::vector<std::string> named;
  const std::string folder = fmt::format("/{}/", split);
  const size_t below = base::join_path(directory, "").size() - 1;
  for (const std::string& path : files) {
    const std::string name = base::file_name(path);
    if ((name.starts_with(split) && name.find_first_of("-.", 0) == split.size()) ||
        path.find(folder, below) != std::string::npos)
      named.push_back(path);
  }
  return named;
}

// Returns the files of a split; empty: the files of the directory name no split.
std::vector<std::string> files_of_split(const std::string& directory, const std::vector<std::string>& files,
                                        std::string_view split) {
  if (std::vector<std::string> named = files_named(directory, files, split);
      !named.empty() && split_of(split) != split)
    return named;
  const std::vector<std::string_view> splits = splits_of(files, base::join_path(directory, "").size());
  std::vector<std::string> of_split;
  std::set<std::string_view> others;
  const std::string* unnamed = nullptr;
  for (size_t i = 0; i < files.size(); ++i)
    if (splits[i].empty())
      unnamed = &files[i];
    else if (splits[i] == split)
      of_split.push_back(files[i]);
    else
      others.insert(splits[i]);
  if (of_split.empty() && others.empty()) return {};
  if (unnamed != nullptr) {
    fail(Status::unsupported,
         "{}: some files are named by split, and {} is not; give a glob of the files to read",
         Place::in(directory), *unnamed);
  }
  if (of_split.empty()) {
    fail(Status::not_found, "{}: no file of the split '{}'; there are: {}", Place::in(directory), split,
         fmt::join(others, ", "));
  }
  return of_split;
}

}  // namespace

std::optional<FileFormat> loader_format(std::string_view name) {
  if (name == "json") return FileFormat::json;
  if (name == "csv") return FileFormat::csv;
  if (name == "text") return FileFormat::text;
  if (name == "parquet") return FileFormat::parquet;
  return std::nullopt;
}

std::vector<RowFile> find_files(const std::string& path, std::string_view split,
                                std::optional<FileFormat> format) {
  std::vector<RowFile> found;
  if (base::is_directory(path)) {
    const std::vector<std::string> files = files_below(path);
    if (files.empty())
      fail(Status::not_found, "{}: the directory holds no files of rows; {} are read", Place::in(path),
           kKnown);
    const std::vector<std::string> of_split = files_of_split(path, files, split);
    for (const std::string& file : of_split.empty() ? files : of_split) {
      if (!format && !format_by_name(file)) {
        refuse_foreign(file);
        fail(Status::unsupported, "{}: {} are read; give a glob of the files to read, such as {}/*.jsonl",
             Place::in(file), kKnown, path);
      }
      found.push_back(row_file(file, format));
    }
    return found;
  }
  if (!base::file_exists(path) && path.find_first_of("*?[") != std::string::npos) {
    for (const std::string& file : glob(path)) found.push_back(row_file(file, format));
    if (found.empty()) fail(Status::not_found, "{}: no file matches", Place::in(path));
    return found;
  }
  found.push_back(row_file(path, format));
  return found;
}

bool names_split(const std::string& directory, std::string_view split) {
  if (!base::is_directory(directory)) return false;
  const std::vector<std::string> files = files_below(directory);
  const std::vector<std::string_view> splits = splits_of(files, base::join_path(directory, "").size());
  return std::ranges::find(splits, split) != splits.end() || !files_named(directory, files, split).empty();
}

std::vector<std::string> splits_in(const std::string& path) {
  std::set<std::string> names;
  if (base::is_directory(path)) {
    for (const std::string_view split : splits_of(files_below(path), base::join_path(path, "").size()))
      names.emplace(split);
    names.erase("");
  }
  if (names.empty()) names.insert("train");
  return {names.begin(), names.end()};
}

std::string files_stamp(const std::vector<RowFile>& files) {
  std::string stamp;
  for (const RowFile& file : files) {
    const io::FileStamp one = io::file_stamp(file.path);
    stamp += fmt::format("{}\n{} {} {} {}\n", file.path, one.device, one.inode, one.size, one.changed);
  }
  return stamp;
}

}  // namespace trl::data
