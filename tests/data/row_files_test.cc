// Files, directories and globs: which files they are, in which order, and what is none.
#include "data/source/row_files.h"

#include <gtest/gtest.h>

#include <sys/stat.h>

#include <filesystem>

#include "base/error.h"
#include "io/temporary_file.h"
#include "support/error_of.h"

namespace trl::data {
namespace {

class Folder {
 public:
  explicit Folder(const std::vector<std::string>& names) {
    for (const std::string& name : names) add(name);
  }
  void add(const std::string& name, std::string_view bytes = "rows") const {
    base::make_directories(std::filesystem::path(directory_.file(name)).parent_path());
    directory_.write(name, bytes);
  }
  std::string path(const std::string& name = "") const {
    return directory_.path() + (name.empty() ? "" : "/" + name);
  }
  // The names found, within the folder.
  std::vector<std::string> find(const std::string& pattern = "", std::string_view split = "train") const {
    std::vector<std::string> names;
    for (const RowFile& file : find_files(path(pattern), split))
      names.push_back(file.path.substr(path().size() + 1));
    return names;
  }
  std::pair<Status, std::string> error(const std::string& pattern = "",
                                       std::string_view split = "train") const {
    auto [status, message] = test::error_of([&] { find(pattern, split); });
    for (size_t at; (at = message.find(path())) != std::string::npos;)
      message.replace(at, path().size(), "D");
    return {status, message};
  }

 private:
  const test::TemporaryDirectory directory_;
};

using Names = std::vector<std::string>;

TEST(Files, FormatsByName) {
  const Folder folder({"a.jsonl", "b.json.gz", "c.csv.zst", "d.tsv", "e.txt", "f", "g.ndjson"});
  const std::map<std::string, FileFormat> want = {
      {"a.jsonl", FileFormat::json}, {"b.json.gz", FileFormat::json}, {"c.csv.zst", FileFormat::csv},
      {"d.tsv", FileFormat::tsv},    {"e.txt", FileFormat::text},     {"f", FileFormat::json},
      {"g.ndjson", FileFormat::json}};
  for (const auto& [name, format] : want)
    EXPECT_EQ(find_files(folder.path(name)).at(0).format, format) << name;
  EXPECT_EQ(find_files(folder.path("f"), "train", FileFormat::csv).at(0).format, FileFormat::csv);
  EXPECT_EQ(loader_format("text"), FileFormat::text);
  EXPECT_EQ(loader_format("jsonl"), std::nullopt);
}

TEST(Files, ADirectoryIsSortedByName) {
  const Folder folder({"b.jsonl", "a.jsonl.gz", "sub/c.csv", "B.txt", ".hidden.jsonl", ".git/x.bin",
                       "README.md", "dataset_info.json", "_SUCCESS"});
  EXPECT_EQ(folder.find(), (Names{"B.txt", "a.jsonl.gz", "b.jsonl", "sub/c.csv"}));
  EXPECT_EQ(find_files(folder.path() + "/").size(), 4u);
  folder.add("notes.md");
  EXPECT_EQ(folder.error(),
            std::pair(Status::unsupported,
                      std::string("D/notes.md: JSON Lines, JSON, CSV and plain text, each plain, "
                                  ".gz or .zst are read; give a glob of the files to read, "
                                  "such as D/*.jsonl")));
  const Folder empty({"README.md", ".x"});
  EXPECT_EQ(empty.error().first, Status::not_found);
  EXPECT_TRUE(empty.error().second.starts_with("D: the directory holds no files of rows"))
      << empty.error().second;
}

TEST(Files, Globs) {
  const Folder folder(
      {"a-1.jsonl", "a-2.jsonl", "b-1.csv", ".a-3.jsonl", "x/a-4.jsonl", "x/y/a-5.jsonl", "[z].jsonl"});
  EXPECT_EQ(folder.find("a-*.jsonl"), (Names{"a-1.jsonl", "a-2.jsonl"}));
  EXPECT_EQ(folder.find("a-[!1].jsonl"), (Names{"a-2.jsonl"}));
  EXPECT_EQ(folder.find("?-1.*"), (Names{"a-1.jsonl", "b-1.csv"}));
  EXPECT_EQ(folder.find("**/a-*"), (Names{"a-1.jsonl", "a-2.jsonl", "x/a-4.jsonl", "x/y/a-5.jsonl"}));
  EXPECT_EQ(folder.find("x/**"), (Names{"x/a-4.jsonl", "x/y/a-5.jsonl"}));
  EXPECT_EQ(folder.find("*/a-*"), (Names{"x/a-4.jsonl"}));
  EXPECT_EQ(folder.find("x/../a-*"), (Names{"x/../a-1.jsonl", "x/../a-2.jsonl"}));
  EXPECT_EQ(folder.find("[z].jsonl"), (Names{"[z].jsonl"}));
  EXPECT_EQ(folder.error("c-*"), std::pair(Status::not_found, std::string("D/c-*: no file matches")));
}

// As datasets finds splits by the words in names.
TEST(Files, SplitsOfADirectory) {
  const Folder shards(
      {"train-00000-of-00002.jsonl", "train-00001-of-00002.jsonl", "test-00000-of-00001.jsonl"});
  EXPECT_EQ(shards.find(), (Names{"train-00000-of-00002.jsonl", "train-00001-of-00002.jsonl"}));
  EXPECT_EQ(shards.find("", "test"), (Names{"test-00000-of-00001.jsonl"}));
  EXPECT_EQ(shards.find("*"),
            (Names{"test-00000-of-00001.jsonl", "train-00000-of-00002.jsonl", "train-00001-of-00002.jsonl"}));
  EXPECT_EQ(shards.error("", "validation").second,
            "D: no file of the split 'validation'; there are: test, train");
  EXPECT_TRUE(names_split(shards.path(), "test"));
  EXPECT_FALSE(names_split(shards.path(), "validation"));
  shards.add("more.jsonl");
  EXPECT_EQ(shards.error().second,
            "D: some files are named by split, and D/more.jsonl is not; give a glob of the files to read");

  const Folder folders({"data/train/a.jsonl", "data/eval/train_b.jsonl"});
  EXPECT_EQ(folders.find(), (Names{"data/train/a.jsonl"}));
  EXPECT_EQ(folders.find("", "test"), (Names{"data/eval/train_b.jsonl"}));
  const Folder words({"my_train.jsonl", "trainer.jsonl"});
  EXPECT_EQ(words.error().first, Status::unsupported);
  const Folder named({"train_sft-00000-of-00001.jsonl", "test_sft-00000-of-00001.jsonl"});
  EXPECT_EQ(named.find("", "test_sft"), (Names{"test_sft-00000-of-00001.jsonl"}));
  EXPECT_TRUE(names_split(named.path(), "test_sft"));
  const Folder named_folders({"train_sft/a.jsonl", "train_gen/b.jsonl"});
  EXPECT_EQ(named_folders.find("", "train_gen"), (Names{"train_gen/b.jsonl"}));
  EXPECT_TRUE(names_split(named_folders.path(), "train_gen"));
  const Folder plain({"a.jsonl", "latest.jsonl"});
  EXPECT_EQ(plain.find("", "test").size(), 2u);
}

TEST(Files, WhatIsNoFileOfRows) {
  const Folder folder({"a.arrow", "a.jsonl.bz2", "a.parquet"});
  EXPECT_EQ(
      folder.error("none.jsonl"),
      std::pair(Status::not_found, std::string("D/none.jsonl: cannot be opened: No such file or directory")));
  EXPECT_EQ(folder.error("a.arrow").second,
            "D/a.arrow: .arrow files are not read; JSON Lines, JSON, CSV and plain text, "
            "each plain, .gz or .zst are");
  EXPECT_EQ(folder.error("a.jsonl.bz2").first, Status::unsupported);
  folder.add("b.jsonl", "PK\x03\x04");
  EXPECT_EQ(folder.error("b.jsonl").first, Status::unsupported);
  folder.add("c.jsonl", std::string("PAR1\x15\x04", 6));
#ifndef TRL_ARROW
  for (const std::string name : {"a.parquet", "c.jsonl"}) {
    EXPECT_EQ(folder.error(name).first, Status::unsupported);
    EXPECT_NE(folder.error(name).second.find("pandas.read_parquet('D/" + name), std::string::npos)
        << folder.error(name).second;
    EXPECT_NE(folder.error(name).second.find("bash examples/setup.sh --parquet"), std::string::npos);
  }
#endif
}

TEST(Files, StampsTellWhatChanged) {
  const Folder folder({"a.jsonl", "b.jsonl"});
  const std::vector<RowFile> files = find_files(folder.path());
  const std::string stamp = files_stamp(files);
  EXPECT_EQ(files_stamp(files), stamp);
  folder.add("b.jsonl", "{}");
  EXPECT_NE(files_stamp(files), stamp);
  std::filesystem::remove(folder.path("a.jsonl"));
  EXPECT_EQ(test::error_of([&] { files_stamp(files); }).first, Status::not_found);
}

// A pipe would be waited for until somebody writes to it.
TEST(Files, APipeInADirectoryIsNoFile) {
  const Folder folder({"a.jsonl"});
  ASSERT_EQ(::mkfifo(folder.path("b.jsonl").c_str(), 0600), 0);
  EXPECT_EQ(folder.find(), Names{"a.jsonl"});
  EXPECT_EQ(folder.find("*.jsonl"), Names{"a.jsonl"});
}

}  // namespace
}  // namespace trl::data
