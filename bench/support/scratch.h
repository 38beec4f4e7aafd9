// A folder for a bench's files, which goes with the object.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace trl::bench {

class Scratch {
 public:
  explicit Scratch(const std::string& parent)
      : path_((parent.empty() ? std::filesystem::temp_directory_path() : std::filesystem::path(parent)) /
              "bench-XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error(path_ + ": cannot be made");
  }
  ~Scratch() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace trl::bench
