// A blob of the cache that is being written: <checksum>.incomplete, under its lock.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "cli/hub/digest.h"

namespace trl::cli::hub {

// Held with flock, as huggingface_hub holds it; released when the object is destroyed.
class BlobLock {
 public:
  explicit BlobLock(std::string path) : path_(std::move(path)) {}
  ~BlobLock() { release(); }
  BlobLock(const BlobLock&) = delete;
  BlobLock& operator=(const BlobLock&) = delete;
  bool try_take();  // false: another process, or another file of this one, holds it
  void release();

 private:
  std::string path_;
  int file_ = -1;
};

class PartialFile {
 public:
  PartialFile(std::string blob, std::string checksum, int64_t size);
  ~PartialFile();
  PartialFile(const PartialFile&) = delete;
  PartialFile& operator=(const PartialFile&) = delete;

  void open();  // keeps an earlier download's bytes; throws HubError
  int64_t written() const { return written_; }
  bool is_whole() const { return written_ == size_; }
  void write(std::string_view bytes);  // throws HubError: no room, or more bytes than the file has
  void restart();                      // from the first byte
  // Returns whether the checksum is the expected one; found() is the actual one.
  bool check();
  const std::string& found() const { return found_; }
  void keep();     // renames it to the blob
  void discard();  // removes all of it

 private:
  void close();
  [[noreturn]] void fail(const char* what) const;
  std::string blob_, path_, found_;
  int64_t size_, written_ = 0;
  Digest digest_;
  int file_ = -1;
};

}  // namespace trl::cli::hub
