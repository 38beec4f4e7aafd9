// A file without a name, for what leaves memory: gone with this object, whatever ends the process.
#pragma once
#include <cstdint>
#include <string>

namespace trl::memory {

class UnnamedFile {
 public:
  // In the directory, or the nearest one above it that there is. Throws Error(invalid_config) naming
  // offload_dir where files there are memory, and Error(io) where none can be made.
  explicit UnnamedFile(const std::string& directory);
  // Throws the same Error(invalid_config); makes no file.
  static void check(const std::string& directory);
  ~UnnamedFile();
  UnnamedFile(const UnnamedFile&) = delete;
  UnnamedFile& operator=(const UnnamedFile&) = delete;

  int descriptor() const { return descriptor_; }
  const std::string& directory() const { return directory_; }  // the one that it is in
  int64_t free_bytes() const;                                  // of the disk
  // Reserves disk space for that many bytes, which are zeros. Throws Error(io) naming the bytes needed, for
  // what, and those free.
  void reserve(int64_t bytes, const std::string& what) const;

 private:
  const std::string directory_;
  const int descriptor_;
};

}  // namespace trl::memory
