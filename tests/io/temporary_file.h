// A file of given bytes in a directory of its own, gone with the object.
#pragma once
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "base/files/files.h"

namespace trl::test {

class TemporaryDirectory {
 public:
  TemporaryDirectory() : TemporaryDirectory("/tmp") {}
  // Where syncing costs nothing, for tests that save often.
  static TemporaryDirectory in_memory() {
    return TemporaryDirectory(base::is_directory("/dev/shm") ? "/dev/shm" : "/tmp");
  }
  ~TemporaryDirectory() { base::remove_tree(path_); }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::string& path() const { return path_; }
  std::string file(std::string_view name) const { return base::join_path(path_, name); }
  std::string write(std::string_view name, std::string_view bytes) const {
    std::ofstream(file(name), std::ios::binary) << bytes;  // no sync: some tests write thousands of files
    return file(name);
  }

 private:
  explicit TemporaryDirectory(const std::string& parent) : path_(parent + "/trl_test_XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error(path_ + ": cannot be made");
  }
  std::string path_;
};

}  // namespace trl::test
