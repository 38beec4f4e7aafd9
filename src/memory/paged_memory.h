// Memory that is a file without a name: its pages leave this process when they are released, and come back
// from the page cache or the disk when they are read.
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
  // rehearsal there is no file, and nothing of the disk is taken.
  PagedMemory(const std::string& directory, int64_t bytes, const std::string& what);
  ~PagedMemory();
  PagedMemory(const PagedMemory&) = delete;
  PagedMemory& operator=(const PagedMemory&) = delete;

  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  // The disk begins to write what was changed there, and the pages leave this process. any thread
  void release(const void* begin, int64_t bytes) const noexcept;
  // Throws Error(io) where the disk could not read a page, which is zeros since then.
  void check() const;

 private:
  std::optional<UnnamedFile> file_;  // none: of a rehearsal
  const int64_t bytes_;
  char* data_ = nullptr;
  base::MappedRange* range_ = nullptr;
};

}  // namespace trl::memory
