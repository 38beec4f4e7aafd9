// Byte records, appended in order and read in any order: zstd-compressed in blocks, in memory up to a limit and
// beyond it in a file without a name. Appending is exclusive; reading may go on beside it on other threads.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/memory.h"

namespace trl::data {

class RecordStore {
 public:
  struct Options {
    std::string directory;  // of the file; empty: memory takes all
    size_t memory_bytes = size_t{32} << 20;
    base::MemoryCounter* memory = nullptr;
  };
  explicit RecordStore(Options options);
  ~RecordStore();
  RecordStore(const RecordStore&) = delete;
  RecordStore& operator=(const RecordStore&) = delete;

  void append(std::string_view record);  // throws Error(io) where the disk is full
  int64_t size() const;
  std::string read(int64_t record) const;  // 0 <= record < size()
};

}  // namespace trl::data
