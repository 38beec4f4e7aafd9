// Files: whole reads, maps, and directories that appear whole or not at all.
#include "base/files/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/error.h"
#include "base/files/staged_directory.h"

namespace trl::base {
namespace {

class Files : public testing::Test {
 protected:
  void SetUp() override {
    root_ = testing::TempDir() + "trl_files_" + testing::UnitTest::GetInstance()->current_test_info()->name();
    remove_tree(root_);
    make_directories(root_);
  }
  void TearDown() override { remove_tree(root_); }
  std::string path(const std::string& name) const { return join_path(root_, name); }
  std::string root_;
};

TEST_F(Files, MissingFileIsNotFoundAndNamed) {
  for (const bool map : {false, true}) {
    try {
      if (map) {
        MappedFile file(path("gone"));
      } else {
        read_file(path("gone"));
      }
      FAIL() << "read";
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::not_found);
      EXPECT_NE(error.message().find(path("gone")), std::string::npos);
    }
  }
  EXPECT_THROW(read_file(root_), Error);
}

TEST_F(Files, FilesWithoutANameAlwaysHaveADirectory) {
  const char* const before = std::getenv("TMPDIR");
  const std::string kept = before != nullptr ? before : "";
  setenv("TMPDIR", root_.c_str(), 1);
  EXPECT_EQ(temporary_directory(), root_);
  setenv("TMPDIR", path("none").c_str(), 1);
  EXPECT_EQ(temporary_directory(), "/tmp");
  before != nullptr ? setenv("TMPDIR", kept.c_str(), 1) : unsetenv("TMPDIR");
}

TEST_F(Files, MapHoldsTheBytes) {
  write_file(path("a"), "some bytes");
  MappedFile file(path("a"));
  MappedFile moved(std::move(file));
  EXPECT_EQ(moved.bytes(), "some bytes");
  write_file(path("empty"), "");
  EXPECT_EQ(MappedFile(path("empty")).bytes(), "");
}

// Opening a pipe would wait for its writer, which may never come.
TEST_F(Files, OnlyRegularFilesAreMapped) {
  const std::string pipe = path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const auto refuses = [](const auto& call) {
    try {
      call();
      return false;
    } catch (const Error& error) {
      return error.status() == Status::io && error.message().find("not a regular file") != std::string::npos;
    }
  };
  for (const std::string& name : {pipe, std::string("/dev/null")}) {
    EXPECT_TRUE(refuses([&] { MappedFile{name}; })) << name;
    EXPECT_TRUE(refuses([&] { file_size(name); })) << name;
    EXPECT_TRUE(refuses([&] { file_start(name, 4); })) << name;
    EXPECT_TRUE(refuses([&] { file_xxh3(name); })) << name;
  }
}

TEST_F(Files, PipesAreReadWhole) {
  const std::string pipe = path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(pipe) << "some bytes"; });
  EXPECT_EQ(read_file(pipe), "some bytes");
  writer.join();
}

TEST_F(Files, OnlyPagesOfAFileAreDropped) {
  const std::string bytes(1 << 20, 'x');
  write_file(path("a"), bytes);
  const MappedFile file(path("a"));
  std::string memory = bytes;
  for (const std::string_view part : {file.bytes(), std::string_view(memory)}) {
    MappedFile::drop(part);
    EXPECT_EQ(part, bytes);
  }
}

TEST_F(Files, StagedDirectoryAppearsAtCommit) {
  const std::string target = path("deep/model");
  {
    StagedDirectory staged(target);
    staged.write("a", "1");
    EXPECT_FALSE(file_exists(target));
    staged.commit();
  }
  EXPECT_EQ(read_file(target + "/a"), "1");
  EXPECT_EQ(list_directory(path("deep")), std::vector<std::string>{"model"});
}

// Beside the link there may be no place for files: a link is how /proc shows an open directory.
TEST_F(Files, StagedDirectoryIsWrittenBesideWhatALinkNames) {
  make_directories(path("elsewhere/real"));
  const int open_directory = ::open(path("elsewhere/real").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_GE(open_directory, 0);
  std::filesystem::create_directory_symlink("elsewhere/real", path("link"));
  for (const std::string& target : {fmt::format("/proc/self/fd/{}", open_directory), path("link")}) {
    StagedDirectory staged(target);
    staged.write("name", target);
    EXPECT_EQ(list_directory(path("elsewhere")).size(), 2u);
    staged.commit();
    EXPECT_EQ(read_file(path("elsewhere/real/name")), target);
  }
  ::close(open_directory);
  EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
  EXPECT_EQ(list_directory(root_), (std::vector<std::string>{"elsewhere", "link"}));
}

TEST_F(Files, WritableDirectoriesTakeFiles) {
  need_writable_directory(root_);
  need_writable_directory(path("not/yet/there"));
  EXPECT_TRUE(list_directory(root_).empty());
  for (const char* folder :
       {"/proc", "/proc/self", "/sys", "/sys/kernel", "/dev/pts", "/proc/new", "/sys/new/er"})
    EXPECT_THROW(need_writable_directory(folder), Error) << folder;
}

TEST_F(Files, StagedDirectoryWithoutCommitLeavesTheOldOne) {
  const std::string target = path("model");
  make_directories(target);
  write_file(target + "/a", "old");
  WriteFault fault = [](const std::string& file, size_t) {
    if (file.ends_with("/b")) throw Error(Status::io, file + ": no space");
  };
  try {
    StagedDirectory staged(target, &fault);
    staged.write("a", "new");
    staged.write("b", "new");
    staged.commit();
    FAIL() << "written";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::io);
  }
  EXPECT_EQ(read_file(target + "/a"), "old");
  EXPECT_EQ(list_directory(root_), std::vector<std::string>{"model"});
}

TEST_F(Files, StagedDirectoryMergesAndRemovesWhatItReplaces) {
  const std::string target = path("model");
  make_directories(target);
  write_file(target + "/a", "old");
  write_file(target + "/mine", "kept");
  write_file(target + "/shard", "stale");
  StagedDirectory staged(target);
  staged.write("a", "new");
  staged.replaces("shard");
  staged.commit();
  EXPECT_EQ(read_file(target + "/a"), "new");
  EXPECT_EQ(list_directory(target), (std::vector<std::string>{"a", "mine"}));
}

TEST_F(Files, StagedDirectoryHoldsFolders) {
  for (const char* text : {"1", "2"}) {
    StagedDirectory staged(path("model"));
    staged.write("more/a", text);
    staged.commit();
    EXPECT_EQ(read_file(path("model/more/a")), text);
  }
  StagedDirectory staged(path("model"));
  staged.write("other/b", "3");
  staged.replaces("more/a");
  staged.commit();
  EXPECT_EQ(read_file(path("model/other/b")), "3");
  EXPECT_FALSE(file_exists(path("model/more/a")));
}

TEST_F(Files, PlainPathsStayBelowTheirDirectory) {
  for (const char* plain : {"a", "a.b/c", "..a", "a/..b/c"}) EXPECT_TRUE(is_plain_path(plain)) << plain;
  for (const char* other : {"", ".", "..", "../x", "a/..", "a//b", "/a", "a/"})
    EXPECT_FALSE(is_plain_path(other)) << other;
}

TEST_F(Files, StagedDirectoryKnowsWhatItWrote) {
  StagedDirectory staged(path("model"));
  staged.write("a", "12");
  staged.write("b", [](FileWriter& writer) {
    writer.write("1");
    writer.write("2");
  });
  ASSERT_EQ(staged.written().size(), 2u);
  EXPECT_EQ(staged.written()[0].name, "a");
  EXPECT_EQ(staged.written()[0].size, 2u);
  EXPECT_EQ(staged.written()[0].xxh3, xxh3_64("12"));
  EXPECT_EQ(staged.written()[1].xxh3, xxh3_64("12"));
  staged.commit();
  EXPECT_EQ(file_xxh3(path("model/b")), xxh3_64("12"));
  EXPECT_THROW(file_xxh3(path("model")), Error);
  EXPECT_THROW(file_xxh3(path("gone")), Error);
}

// Whichever rename fails: the old files are back.
TEST_F(Files, ACommitThatFailsIsUndone) {
  const std::string target = path("model");
  make_directories(target);
  for (const char* name : {"a", "b", "mine", "shard"}) write_file(target + "/" + name, "old");
  int renames = 0;
  for (int nth = 0;; ++nth) {
    renames = 0;
    const WriteFault fault = [&](const std::string& file, size_t bytes) {
      if (bytes == 0 && renames++ == nth) throw Error(Status::io, file + ": failed");
    };
    StagedDirectory staged(target, &fault);
    for (const char* name : {"a", "b", "c"}) staged.write(name, "new");
    staged.replaces("shard");
    try {
      staged.commit();
      break;
    } catch (const Error&) {
      EXPECT_EQ(list_directory(target), (std::vector<std::string>{"a", "b", "mine", "shard"})) << nth;
      for (const std::string& name : list_directory(target)) EXPECT_EQ(read_file(target + "/" + name), "old");
    }
  }
  EXPECT_EQ(renames, 4);
  EXPECT_EQ(list_directory(target), (std::vector<std::string>{"a", "b", "c", "mine"}));
  EXPECT_EQ(read_file(target + "/a"), "new");
}

TEST_F(Files, AWholeDirectoryIsReplaced) {
  const std::string target = path("checkpoint-1");
  for (const char* text : {"first", "second"}) {
    StagedDirectory staged(target);
    staged.write(text, text);
    staged.commit_whole();
    EXPECT_EQ(list_directory(target), std::vector<std::string>{text});
  }
  EXPECT_EQ(list_directory(root_), std::vector<std::string>{"checkpoint-1"});
  remove_directory(target);
  EXPECT_TRUE(list_directory(root_).empty());
}

TEST_F(Files, WhatALivingProcessWritesIsNotCleared) {
  const auto ours = [](std::string_view target) { return target.starts_with("checkpoint-"); };
  {
    StagedDirectory staged(path("checkpoint-1"));
    staged.write("a", "1");
    make_directories(path("checkpoint-1.1.tmp"));
    make_directories(path("other.1.tmp"));
    clear_unfinished(root_, ours);
    EXPECT_EQ(list_directory(root_).size(), 2u);
    EXPECT_THROW(StagedDirectory(path("checkpoint-1")), Error);  // written by somebody else
    staged.commit();
  }
  EXPECT_EQ(list_directory(root_), (std::vector<std::string>{"checkpoint-1", "other.1.tmp"}));
  EXPECT_NO_THROW(clear_unfinished(path("gone"), ours));
}

TEST_F(Files, ReplaceFileKeepsTheOldOneWhenWritingFails) {
  write_file(path("a"), "old");
  const WriteFault fault = [](const std::string&, size_t) { throw Error(Status::io, "no space"); };
  EXPECT_THROW(replace_file(path("a"), "new", &fault), Error);
  EXPECT_EQ(read_file(path("a")), "old");
  EXPECT_EQ(list_directory(root_), std::vector<std::string>{"a"});
  replace_file(path("a"), "new");
  EXPECT_EQ(read_file(path("a")), "new");
}

TEST_F(Files, ReplaceFileTakesFilesAlone) {
  write_file(path("a"), "old");
  std::filesystem::create_symlink("a", path("link"));
  replace_file(path("link"), "new");
  EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
  EXPECT_EQ(read_file(path("a")), "new");
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  EXPECT_THROW(replace_file(path("pipe"), "new"), Error);
  EXPECT_TRUE(std::filesystem::is_fifo(path("pipe")));
}

}  // namespace
}  // namespace trl::base
