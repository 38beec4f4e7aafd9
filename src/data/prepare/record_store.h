// Byte records, appended in order and read in any order: zstd-compressed in blocks, in memory up to a limit
// and beyond it in a file. A finished store can be published under a name and opened by later runs
// (RowCache). Appending is exclusive; other threads may read meanwhile.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/files.h"
#include "base/log.h"
#include "base/memory/memory.h"
#include "base/threads/thread_pool.h"
#include "data/prepare/counts.h"

namespace trl::data {

class RecordStore {
 public:
  struct Options {
    std::string directory;  // of the file, which has no name; empty: memory takes all
    size_t memory_bytes = size_t{32} << 20;
    base::MemoryCounter* memory = nullptr;
    const base::WriteFault* write_fault = nullptr;  // for tests
  };
  explicit RecordStore(Options options);
  ~RecordStore();
  RecordStore(const RecordStore&) = delete;
  RecordStore& operator=(const RecordStore&) = delete;

  void append(std::string_view record);  // throws Error(io) if the disk is full
  // The same, compressed on the pool.
  void append(std::span<const std::string> records, base::ThreadPool& pool);
  int64_t size() const;
  // 0 <= record < size(); throws Error(format) if the file is damaged.
  std::string read(int64_t record) const;

  int64_t packed_bytes();  // of all records so far, compressed
  // Writes everything so far and `about` next to path, syncs it and moves it there. Nothing is appended
  // afterwards.
  void publish(const std::string& path, std::string_view about);
  // Opens a published file; checks every block. Throws not_found, and Error(format) if the file is damaged.
  static std::unique_ptr<RecordStore> open(const std::string& path, std::string* about,
                                           base::MemoryCounter* memory);

 private:
  struct Block {
    int64_t first;   // record
    int64_t offset;  // in the file, or index in kept_
    uint32_t bytes;  // with its header
  };
  void close_block();
  void add_block(std::string block, int64_t records);
  void spill();
  std::string block_bytes(size_t block) const;

  const Options options_;
  mutable std::mutex mutex_;
  std::vector<Block> blocks_;
  std::vector<std::string> kept_;  // blocks in memory, until there is a file
  int64_t charged_ = 0;
  std::string tail_;  // the open block
  int64_t tail_first_ = 0;
  int64_t size_ = 0;
  std::string path_;  // of the file, for messages
  std::unique_ptr<base::FileWriter> writer_;
  int descriptor_ = -1;  // the file, opened for reading
  int64_t file_bytes_ = 0;
  mutable size_t cached_block_ = SIZE_MAX;
  mutable std::string cached_;
  mutable std::vector<uint32_t> cached_begins_;  // of that block's records, and the end
};

// Prepared rows on disk, for later runs over the same rows: one file for each content (rows, tokenizer,
// options), in dataset_cache_dir. Safe with several processes: a file appears whole or not at all, and the
// oldest files are removed when all of them exceed dataset_cache_limit.
class RowCache {
 public:
  RowCache() = default;  // no cache
  RowCache(std::string directory, uint64_t limit_bytes)
      : directory_(std::move(directory)), limit_bytes_(limit_bytes) {}

  bool is_on() const { return !directory_.empty() && limit_bytes_ > 0; }
  // Returns null if the file is missing, or is not valid (a warning; it is removed).
  std::unique_ptr<RecordStore> find(uint64_t key, Counts* counts, base::MemoryCounter* memory,
                                    base::LogSink& log) const;
  // Throws Error(io) if the file cannot be written.
  void add(uint64_t key, RecordStore& rows, const Counts& counts) const;

 private:
  std::string path(uint64_t key) const;
  void shrink(const std::string& newest) const;
  std::string directory_;
  uint64_t limit_bytes_ = 0;
};

}  // namespace trl::data
