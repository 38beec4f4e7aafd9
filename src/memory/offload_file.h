// A file without a name that holds offloaded data. Its pages are written to the disk and leave the page
// cache, and it disappears with this object, whatever ends the process.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <span>
#include <string>

#include "base/files/files.h"
#include "memory/paged_memory.h"

namespace trl::memory {

// any thread
class OffloadFile {
 public:
  struct Extent {
    int64_t offset = 0, bytes = 0;
  };
  // In the directory, as in UnnamedFile.
  explicit OffloadFile(const std::string& directory, const base::WriteFault* fault = nullptr);
  OffloadFile(const OffloadFile&) = delete;
  OffloadFile& operator=(const OffloadFile&) = delete;

  // Throws Error(io), with the bytes needed and free if the disk is full.
  Extent write(std::span<const char> bytes);
  void read(const Extent& extent, char* to);
  void free(const Extent& extent) noexcept;  // its place may be reused

  int64_t size() const;                                      // the most it has held
  int64_t used() const;                                      // bytes in extents
  int64_t free_bytes() const { return file_.free_bytes(); }  // unused bytes of the disk
  const std::string& directory() const { return file_.directory(); }

 private:
  Extent take(int64_t bytes);
  void write_back(const Extent& extent);

  const UnnamedFile file_;
  const base::WriteFault* const fault_;
  mutable std::mutex mutex_;
  std::map<int64_t, int64_t> gaps_;  // offset -> bytes
  int64_t end_ = 0, used_ = 0;
  std::deque<Extent> written_;  // may still be in the page cache
  int64_t written_bytes_ = 0;
};

}  // namespace trl::memory
