// The classes of C++ for files of the host, as far as they open no engine.
#include <filesystem>
#include <fstream>
#include <set>
#include <string_view>

#include "bindings/cpp/common.h"

namespace {

using cpp_test::error_of;
using cpp_test::kModel;
using cpp_test::Oops;

// A file of a directory, for a mount.
std::int64_t read_of(const std::filesystem::path& path, std::uint64_t offset, char* buffer,
                     std::size_t size) {
  std::ifstream file(path, std::ios::binary);
  if (!std::filesystem::is_regular_file(path)) return trl::Status::not_found;
  if (buffer == nullptr) return static_cast<std::int64_t>(std::filesystem::file_size(path));
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(buffer, static_cast<std::streamsize>(size));
  return file.gcount();
}

TEST(CppMount, FilesOfTheHostAreRead) {
  trl::Runtime runtime;
  std::set<std::string> read;
  runtime.mount(
      "cpp-files",
      [&](std::string_view file, std::uint64_t offset, char* buffer, std::size_t size) {
        if (buffer != nullptr) read.insert(std::string(file));
        return read_of(kModel + "/" + std::string(file), offset, buffer, size);
      },
      nullptr);
  const trl::Tokenizer tokenizer("host://cpp-files", {}, &runtime);
  EXPECT_TRUE(read.count("tokenizer.json"));
  EXPECT_EQ(tokenizer.encode("the kernel"), trl::Tokenizer(kModel).encode("the kernel"));
  EXPECT_EQ(error_of([&] { trl::Tokenizer("host://cpp-files/sub", {}, &runtime); }).status(),
            trl::Status::not_found);
}

TEST(CppMount, WhatAReadThrowsComesThrough) {
  trl::Runtime runtime;
  int calls = 0;
  runtime.mount(
      "cpp-throws",
      [&](trl::TextView, std::uint64_t, char*, std::size_t) -> std::int64_t {
        ++calls;
        throw Oops(6);
      },
      nullptr);
  EXPECT_THROW(trl::Tokenizer("host://cpp-throws", {}, &runtime), Oops);
  EXPECT_EQ(calls, 1);
  trl::Runtime other;
  other.mount(
      "cpp-fails", [](trl::TextView, std::uint64_t, char*, std::size_t) { return -7; }, nullptr);
  const trl::Error error = error_of([&] { trl::Tokenizer("host://cpp-fails", {}, &other); });
  EXPECT_EQ(error.status(), trl::Status::callback);
  EXPECT_EQ(error.callback_code(), -7);
}

TEST(CppMount, FunctionsAreFreedOnce) {
  const auto alive = std::make_shared<int>(0);
  const auto read = [alive](trl::TextView, std::uint64_t, char*, std::size_t) {
    return trl::Status::not_found;
  };
  const auto write = [alive](std::int32_t, trl::TextView, std::uint64_t, trl::TextView) {};
  {
    trl::Runtime runtime;
    runtime.mount("cpp-freed", read, write);
    EXPECT_EQ(alive.use_count(), 5);
    EXPECT_EQ(error_of([&] { runtime.mount("cpp-freed", nullptr, write); }).status(),
              trl::Status::invalid_argument);
    EXPECT_EQ(error_of([&] { runtime.mount("a name", read, write); }).status(),
              trl::Status::invalid_argument);
    EXPECT_EQ(error_of([&] { runtime.mount(std::string("cut\0off", 7), read, write); }).status(),
              trl::Status::invalid_argument);
    EXPECT_EQ(alive.use_count(), 5);
  }
  EXPECT_EQ(alive.use_count(), 3);
}

// As a save calls it that an exception of the host ends.
TEST(CppMount, AWriterIsToldThatASaveIsDroppedAfterAnException) {
  std::vector<std::int32_t> told;
  const auto write = [&](std::int32_t what, const std::string& folder, std::uint64_t, trl::TextView data) {
    told.push_back(what);
    EXPECT_EQ(folder, "folder");
    EXPECT_EQ(data.size(), 0u);
    EXPECT_GT(trl::Config({{"seed", 1}}).describe().size(), 2u);  // which does not take the exception
    if (told.size() == 1) throw Oops(7);
  };
  using Files = trl::detail::Files<std::nullptr_t, decltype(write)>;
  Files files{nullptr, write};
  const trl_write_fn writer = trl::detail::writer_of<Files>(write);
  static_assert(std::is_same_v<decltype(trl::detail::reader_of<Files>(nullptr)), trl_read_fn>);
  EXPECT_EQ(trl::detail::reader_of<Files>(nullptr), nullptr);
  trl::detail::Thread& thread = trl::detail::this_thread();
  ++thread.calls;
  for (const std::int32_t what : {trl::WriteKind::done, trl::WriteKind::data, trl::WriteKind::dropped})
    writer(&files, what, "folder", 0, nullptr, 0);
  --thread.calls;
  EXPECT_EQ(told, (std::vector<std::int32_t>{trl::WriteKind::done, trl::WriteKind::dropped}));
  EXPECT_THROW(std::rethrow_exception(std::exchange(thread.thrown, nullptr)), Oops);
}

}  // namespace
