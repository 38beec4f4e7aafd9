// Files of a host: what is read of them when, and how a folder is written to one.
#include "base/files/host_files.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <vector>

#include "base/files/files.h"
#include "base/files/staged_directory.h"

namespace trl::base {
namespace {

class FakeHost final : public HostFiles {
 public:
  FakeHost() { set_host_files(this); }
  ~FakeHost() { set_host_files(nullptr); }
  FakeHost(const FakeHost&) = delete;
  FakeHost& operator=(const FakeHost&) = delete;

  Answer size(const std::string& path) noexcept override {
    if (promised > 0) return {promised};
    return {files.count(path) != 0 ? static_cast<int64_t>(files[path].size()) : -1};
  }
  Answer read(const std::string& path, uint64_t offset, void* buffer, size_t size) noexcept override {
    reads.emplace_back(offset, offset + size);
    const std::string part = files[path].substr(offset, size);
    std::memcpy(buffer, part.data(), part.size());
    return {static_cast<int64_t>(part.size())};
  }
  Answer write(HostWrite what, const std::string& path, uint64_t offset,
               std::string_view data) noexcept override {
    constexpr const char* kNames[] = {"data", "done", "dropped"};
    told.push_back(fmt::format("{} {} {} {}", kNames[static_cast<size_t>(what)], path, offset, data.size()));
    if (what == HostWrite::data) files[path] += data;
    return {};
  }
  Answer charge(const std::string&, int64_t bytes) noexcept override {
    if (charged + bytes > room) return {0, Error(Status::out_of_memory, "no room")};
    charged += bytes;
    return {};
  }
  void release(int64_t bytes) noexcept override { charged -= bytes; }

  std::map<std::string, std::string> files;
  std::vector<std::pair<uint64_t, uint64_t>> reads;
  std::vector<std::string> told;
  int64_t charged = 0, room = INT64_MAX;
  int64_t promised = 0;  // the size that it says, whatever it has; 0: the file's
};

using Reads = std::vector<std::pair<uint64_t, uint64_t>>;
using Told = std::vector<std::string>;

constexpr const char* kFile = "host://m/file";

std::string letters(size_t count) {
  std::string text(count, ' ');
  for (size_t i = 0; i < count; ++i) text[i] = static_cast<char>('a' + i % 26);
  return text;
}

TEST(HostFiles, AreFoundAndRead) {
  EXPECT_THROW(file_exists(kFile), Error);  // nothing is mounted
  FakeHost host;
  host.files[kFile] = letters(100);
  EXPECT_TRUE(file_exists(kFile));
  EXPECT_FALSE(is_directory(kFile));
  EXPECT_FALSE(file_exists("host://m"));
  EXPECT_TRUE(is_directory("host://m"));
  EXPECT_TRUE(list_directory("host://m").empty());
  EXPECT_EQ(read_file(kFile), letters(100));
  EXPECT_EQ(file_size(kFile), 100u);
  EXPECT_EQ(file_start(kFile, 3), "abc");
  EXPECT_EQ(file_xxh3(kFile), xxh3_64(letters(100)));
  EXPECT_EQ(absolute_path(kFile), kFile);
  EXPECT_THROW(read_file("host://m/other"), Error);
  EXPECT_THROW(make_directories("host://m/new"), Error);
}

TEST(HostFiles, APartIsReadOnceWhileItIsHere) {
  FakeHost host;
  host.files[kFile] = letters(20000);
  {
    const MappedFile file(kFile, true);
    const std::string_view all = file.bytes();
    ASSERT_EQ(all.size(), 20000u);
    EXPECT_TRUE(host.reads.empty());
    MappedFile::need(all.substr(100, 100));
    MappedFile::need(all.substr(150, 100));
    MappedFile::fetch(all.substr(100, 150));  // is here
    MappedFile::need(all.substr(300, 100));
    MappedFile::need(all.substr(50, 400));
    EXPECT_EQ(host.reads, (Reads{{100, 200}, {200, 250}, {300, 400}, {50, 100}, {250, 300}, {400, 450}}));
    EXPECT_EQ(host.charged, 400);
    EXPECT_EQ(all.substr(50, 400), letters(20000).substr(50, 400));
    host.reads.clear();
    MappedFile::drop(all.substr(200, 50));
    EXPECT_EQ(host.charged, 350);
    MappedFile::need(all.substr(190, 70));
    EXPECT_EQ(host.reads, (Reads{{200, 250}}));
    MappedFile::need(all);
    MappedFile::drop(all.substr(3, 15000));
    EXPECT_EQ(host.charged, 5000);
    EXPECT_EQ(all.substr(15003), letters(20000).substr(15003));
    EXPECT_EQ(all.substr(0, 3), "abc");
    MappedFile::need(all);
    EXPECT_EQ(all, letters(20000));
  }
  EXPECT_EQ(host.charged, 0);
}

TEST(HostFiles, AWholeMapIsReadAtOnce) {
  FakeHost host;
  host.files[kFile] = letters(5000);
  host.files["host://m/empty"] = "";
  {
    const MappedFile file(kFile);
    EXPECT_EQ(host.reads, (Reads{{0, 5000}}));
    EXPECT_EQ(file.bytes(), letters(5000));
    EXPECT_TRUE(MappedFile("host://m/empty").bytes().empty());
    EXPECT_EQ(host.charged, 5000);
  }
  host.room = 4999;
  EXPECT_THROW(MappedFile{kFile}, Error);
  EXPECT_EQ(host.charged, 0);
}

TEST(HostFiles, AFileThatEndsEarlyIsAnError) {
  FakeHost host;
  host.files[kFile] = letters(500);
  const MappedFile file(kFile, true);
  host.files[kFile].resize(100);
  MappedFile::need(file.bytes().substr(0, 100));
  EXPECT_THROW(MappedFile::need(file.bytes()), Error);
  EXPECT_EQ(host.charged, 100);
}

// Neither memory nor another error for what the host does not have.
TEST(HostFiles, AFileThatPromisesTooMuchIsAnError) {
  FakeHost host;
  host.files[kFile] = letters(500);
  for (const int64_t promised : {INT64_MAX, int64_t{1} << 50, int64_t{501}}) {
    host.promised = promised;
    for (const auto& read : {+[] { read_file(kFile); }, +[] { file_xxh3(kFile); }}) {
      try {
        read();
        ADD_FAILURE() << promised;
      } catch (const Error& error) {
        EXPECT_EQ(error.status(), Status::io) << error.message();
        EXPECT_EQ(error.place().file, kFile);
      }
    }
  }
}

TEST(HostFiles, LargeFilesAreReadInPieces) {
  FakeHost host;
  host.files[kFile] = letters((size_t{5} << 19) + 1);
  EXPECT_EQ(read_file(kFile), host.files[kFile]);
  EXPECT_EQ(host.reads, (Reads{{0, 1048576}, {1048576, 2097152}, {2097152, 2621441}}));
  EXPECT_EQ(file_xxh3(kFile), xxh3_64(host.files[kFile]));
}

TEST(HostFiles, AreWrittenInPieces) {
  FakeHost host;
  const std::string bytes = letters((size_t{5} << 19) + 1);
  FileWriter writer(kFile);
  for (size_t at = 0; at < bytes.size(); at += 100'000)
    writer.write(std::string_view(bytes).substr(at, 100'000));
  writer.close();
  EXPECT_EQ(host.told, (Told{"data host://m/file 0 1048576", "data host://m/file 1048576 1048576",
                             "data host://m/file 2097152 524289"}));
  EXPECT_EQ(host.files[kFile], bytes);
  EXPECT_EQ(writer.size(), bytes.size());
  EXPECT_EQ(writer.xxh3(), xxh3_64(bytes));
}

TEST(HostFiles, AFolderIsDoneOrDropped) {
  FakeHost host;
  {
    StagedDirectory folder("host://m/saved/");
    folder.write("empty", "");
    folder.write("in/a", "text");
    folder.commit();
  }
  EXPECT_EQ(host.told, (Told{"data host://m/saved/empty 0 0", "data host://m/saved/in/a 0 4",
                             "done host://m/saved 0 0"}));
  host.told.clear();
  {
    StagedDirectory folder("host://m");
    folder.write("a", "text");
  }
  EXPECT_EQ(host.told, (Told{"data host://m/a 0 4", "dropped host://m 0 0"}));
  host.told.clear();
  { StagedDirectory folder("host://m"); }
  EXPECT_TRUE(host.told.empty());
  {
    const WriteFault fault = [](const std::string& path, size_t) {
      if (path == "host://m/b") fail(Status::io, "refused");
    };
    StagedDirectory folder("host://m", &fault);
    folder.write("a", "1");
    EXPECT_THROW(folder.write("b", "2"), Error);
  }
  EXPECT_EQ(host.told.back(), "dropped host://m 0 0");
}

}  // namespace
}  // namespace trl::base
