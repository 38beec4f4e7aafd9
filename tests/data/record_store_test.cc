// Records come back as they were, from memory and from a file, beside a writer, and never from a damaged
// file.
#include "data/prepare/record_store.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "support/error_of.h"
#include "support/scratch.h"

namespace trl::data {
namespace {

std::string record(int64_t i) {
  return fmt::format("{}:", i) +
         std::string(static_cast<size_t>(i * 7919 % 3000), static_cast<char>('a' + i % 26));
}

TEST(RecordStore, ReadsInAnyOrder) {
  base::MemoryCounter memory;
  {
    RecordStore store({{}, size_t{1} << 30, &memory, nullptr});
    for (int64_t i = 0; i < 500; ++i) store.append(record(i));
    EXPECT_EQ(store.size(), 500);
    for (int64_t i = 0; i < 500; ++i) EXPECT_EQ(store.read(i * 263 % 500), record(i * 263 % 500));
    EXPECT_GT(memory.now(base::MemoryKind::data), 0);
  }
  EXPECT_EQ(memory.now(), 0);
}

TEST(RecordStore, GoesOnInAFileThatHasNoName) {
  const test::Scratch scratch;
  base::MemoryCounter memory;
  RecordStore store({scratch.path(), 2000, &memory, nullptr});
  for (int64_t i = 0; i < 2000; ++i) store.append(record(i));
  EXPECT_LE(memory.now(), 2000);
  EXPECT_TRUE(std::filesystem::is_empty(scratch.path()));
  for (int64_t i = 0; i < 2000; ++i) ASSERT_EQ(store.read(i * 263 % 2000), record(i * 263 % 2000));
}

TEST(RecordStore, ManyAtOnceAreTheSameFileAsOneByOne) {
  const test::Scratch scratch;
  base::ThreadPool pool(3);
  RecordStore single({{}, size_t{1} << 30, nullptr, nullptr});
  RecordStore many({scratch.path(), 20000, nullptr, nullptr});
  std::vector<std::string> records;
  for (int64_t i = 0; i < 2000; ++i) {
    single.append(record(i));
    records.push_back(record(i));
    if (i % 700 != 3) continue;
    many.append(records, pool);
    records.clear();
    EXPECT_EQ(many.size(), i + 1);
    EXPECT_EQ(many.read(i), record(i));
  }
  many.append(records, pool);
  many.append(std::span<const std::string>(), pool);
  for (int64_t i = 0; i < 2000; ++i) ASSERT_EQ(many.read(i * 263 % 2000), record(i * 263 % 2000));
  single.publish(scratch / "single", "");
  many.publish(scratch / "many", "");
  EXPECT_EQ(base::read_file(scratch / "single"), base::read_file(scratch / "many"));
}

TEST(RecordStore, IsReadWhileItIsWritten) {
  const test::Scratch scratch;
  RecordStore store({scratch.path(), 20000, nullptr, nullptr});
  std::atomic<int> wrong{0};
  std::atomic<bool> done{false};
  std::thread reader([&] {
    for (uint64_t i = 1; !done; i = i * 6364136223846793005u + 1) {
      const int64_t size = store.size();
      if (size == 0) continue;
      const auto at = static_cast<int64_t>((i >> 33) % static_cast<uint64_t>(size));
      if (store.read(at) != record(at)) ++wrong;
    }
  });
  for (int64_t i = 0; i < 3000; ++i) store.append(record(i));
  done = true;
  reader.join();
  EXPECT_EQ(wrong, 0);
}

TEST(RecordStore, DiskFullIsAnError) {
  const test::Scratch scratch;
  const base::WriteFault full = [](const std::string& path, size_t bytes) {
    if (bytes > 0) fail(Status::io, "{}: cannot be written: No space left on device", path);
  };
  RecordStore store({scratch.path(), 2000, nullptr, &full});
  const auto [status, message] = test::error_of([&] {
    for (int64_t i = 0; i < 2000; ++i) store.append(record(i));
  });
  EXPECT_EQ(status, Status::io);
  EXPECT_NE(message.find("No space left on device"), std::string::npos) << message;
}

TEST(RecordStore, PublishedFilesAreCheckedWhenOpened) {
  const test::Scratch scratch;
  const std::string path = scratch / "rows";
  {
    RecordStore store({{}, size_t{1} << 30, nullptr, nullptr});
    for (int64_t i = 0; i < 300; ++i) store.append(record(i));
    store.publish(path, "about them");
    EXPECT_EQ(store.read(299), record(299));
  }
  EXPECT_EQ(base::list_directory(scratch.path()), std::vector<std::string>{"rows"});
  std::string about;
  {
    const auto store = RecordStore::open(path, &about, nullptr);
    EXPECT_EQ(about, "about them");
    EXPECT_EQ(store->size(), 300);
    for (int64_t i = 0; i < 300; ++i) EXPECT_EQ(store->read(i), record(i));
  }
  const std::string good = base::read_file(path);
  for (size_t at = 0; at < good.size(); at += 1 + good.size() / 400) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    base::write_file(path, bad);
    EXPECT_EQ(test::error_of([&] { RecordStore::open(path, &about, nullptr); }).first, Status::format) << at;
    base::write_file(path, good.substr(0, at));
    EXPECT_EQ(test::error_of([&] { RecordStore::open(path, &about, nullptr); }).first, Status::format) << at;
  }
  base::write_file(path, good + "x");
  EXPECT_EQ(test::error_of([&] { RecordStore::open(path, &about, nullptr); }).first, Status::format);
}

}  // namespace
}  // namespace trl::data
