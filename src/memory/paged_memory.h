// Memory that is a file without a name: its pages leave this process when they are released, and are read
// back from the page cache or the disk on access.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "base/files/mapped_reads.h"
#include "memory/unnamed_file.h"

namespace trl::memory {

class PagedMemory {
 public:
  // Zeros, in an UnnamedFile of the directory; throws its errors. what: the content, for messages. In a
  // rehearsal no file is made and no disk space used.
  PagedMemory(const std::string& directory, int64_t bytes, const std::string& what);
  ~PagedMemory();
  PagedMemory(const PagedMemory&) = delete;
  PagedMemory& operator=(const PagedMemory&) = delete;

  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  // Starts writing the changes to the disk, and removes the pages from this process. Any thread.
  void release(const void* begin, int64_t bytes) const noexcept;
  // Throws Error(io) if the disk could not read a page, which has been zeros since then.
  void check() const;

 private:
  std::optional<UnnamedFile> file_;  // empty in a rehearsal
  const int64_t bytes_;
  char* data_ = nullptr;
  base::MappedRange* range_ = nullptr;
};

}  // namespace trl::memory
