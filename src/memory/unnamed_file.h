// A file without a name, for offloaded data: it disappears with this object, whatever ends the process.
#pragma once
#include <cstdint>
#include <string>

namespace trl::memory {

class UnnamedFile {
 public:
  // In the directory, or its nearest existing ancestor. Throws Error(invalid_config) naming offload_dir if
  // files there are kept in memory, and Error(io) if none can be created.
  explicit UnnamedFile(const std::string& directory);
  // Throws the same Error(invalid_config); creates no file.
  static void check(const std::string& directory);
  ~UnnamedFile();
  UnnamedFile(const UnnamedFile&) = delete;
  UnnamedFile& operator=(const UnnamedFile&) = delete;

  int descriptor() const { return descriptor_; }
  const std::string& directory() const { return directory_; }  // the one that holds it
  int64_t free_bytes() const;                                  // unused bytes of the disk
  // Reserves disk space for that many bytes, which are zeros. Throws Error(io) naming the bytes needed, their
  // purpose, and the bytes free.
  void reserve(int64_t bytes, const std::string& what) const;

 private:
  const std::string directory_;
  const int descriptor_;
};

}  // namespace trl::memory
