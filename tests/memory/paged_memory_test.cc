// Memory that is a file: what it holds, what of it is resident, and what is refused.
#include "memory/paged_memory.h"

#include <gtest/gtest.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/text/number.h"
#include "support/scratch.h"
#include "tensor/memory/rehearsal.h"

namespace trl::memory {
namespace {

const std::string kDisk = TRL_BINARY_DIR;

int64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t total = 0, pages = 0;
  statm >> total >> pages;
  return pages * 4096;
}

TEST(PagedMemory, LeavesThisProcessAndComesBack) {
  constexpr int64_t kBytes = int64_t{64} << 20;
  const PagedMemory memory(kDisk, kBytes, "numbers");
  auto* const numbers = reinterpret_cast<int64_t*>(memory.data());
  constexpr int64_t kCount = kBytes / 8;
  EXPECT_EQ(std::accumulate(numbers, numbers + kCount, int64_t{0}), 0);
  std::iota(numbers, numbers + kCount, int64_t{1});
  const int64_t before = resident_bytes();
  memory.release(numbers, kBytes);
  EXPECT_LT(resident_bytes(), before - kBytes * 9 / 10);
  EXPECT_EQ(std::accumulate(numbers, numbers + kCount, int64_t{0}), kCount * (kCount + 1) / 2);
  memory.release(numbers + 3, 40);  // parts of pages stay whole
  EXPECT_EQ(numbers[2], 3);
  EXPECT_EQ(numbers[100], 101);
  EXPECT_NO_THROW(memory.check());
}

// The file of this process that has no name and this size.
int unnamed_file(uintmax_t bytes) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.starts_with(kDisk) && target.ends_with("(deleted)") &&
        std::filesystem::file_size(entry.path(), gone) == bytes)
      return std::stoi(entry.path().filename());
  }
  return -1;
}

TEST(PagedMemory, APageThatTheDiskCannotReadIsAnError) {
  const PagedMemory memory(kDisk, 1 << 20, "numbers");
  memory.data()[5] = 1;
  memory.release(memory.data(), 1 << 20);
  const int file = unnamed_file(1 << 20);
  ASSERT_GE(file, 0);
  ASSERT_EQ(::ftruncate(file, 0), 0);
  const base::MappedReads guard;
  EXPECT_NO_THROW(memory.check());
  EXPECT_EQ(memory.data()[5], 0);
  memory.data()[6] = 1;  // goes nowhere, and ends no process
  EXPECT_THROW(memory.check(), Error);
}

TEST(PagedMemory, HasNoName) {
  const test::Scratch scratch;
  const PagedMemory memory(scratch / "not/there/yet", 4096, "numbers");
  memory.data()[0] = 1;
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
}

TEST(PagedMemory, AnEmptyOne) {
  const PagedMemory memory(kDisk, 0, "nothing");
  EXPECT_EQ(memory.data(), nullptr);
  memory.release(nullptr, 0);
  memory.check();
}

TEST(PagedMemory, ADiskWithoutTheRoomIsRefusedWithBytes) {
  struct statvfs info {};
  ASSERT_EQ(::statvfs(kDisk.c_str(), &info), 0);
  const auto free = static_cast<int64_t>(info.f_bavail * info.f_frsize);
  const int64_t needed = 2 * free;
  try {
    const PagedMemory memory(kDisk, needed, "the optimizer's states");
    FAIL() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::io);
    EXPECT_EQ(error.key(), "offload_dir");
    EXPECT_TRUE(error.message().starts_with(
        fmt::format("offload_dir: {}: the optimizer's states need {} of disk, and ", kDisk,
                    base::bytes_text(static_cast<double>(needed)))))
        << error.message();
    EXPECT_TRUE(error.message().ends_with(" are free; make room, or name a directory on another disk"))
        << error.message();
  }
}

TEST(PagedMemory, OfARehearsalTakesNoDisk) {
  struct statvfs info {};
  ASSERT_EQ(::statvfs(kDisk.c_str(), &info), 0);
  const tensor::Rehearsal rehearsal;
  const PagedMemory memory(kDisk, 2 * static_cast<int64_t>(info.f_bavail * info.f_frsize), "numbers");
  EXPECT_NE(memory.data(), nullptr);
  memory.release(memory.data(), 4096);
  memory.check();
}

TEST(PagedMemory, FilesThatAreMemoryAreRefused) {
  if (!std::filesystem::is_directory("/dev/shm")) GTEST_SKIP() << "no tmpfs here";
  for (const bool rehearsed : {false, true}) {
    std::optional<tensor::Rehearsal> rehearsal;
    if (rehearsed) rehearsal.emplace();
    try {
      const PagedMemory memory("/dev/shm", 4096, "numbers");
      FAIL() << "taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::invalid_config);
      EXPECT_EQ(error.message(),
                "offload_dir: /dev/shm is on a tmpfs, whose files are kept in memory, so moving data there "
                "frees none: "
                "name a directory on a disk");
    }
  }
}

}  // namespace
}  // namespace trl::memory
