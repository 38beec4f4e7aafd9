// Small files by name: those of a directory, read when they are asked for, or files in memory. A value that
// is cheap to copy.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace trl::base {

class NamedFiles {
 public:
  NamedFiles() = default;
  NamedFiles(std::string directory) : name_(std::move(directory)) {}  // of a path, wherever files are read
  // name: for messages. files: by name, which may begin with a folder ("folder/file").
  NamedFiles(std::string name, std::map<std::string, std::string> files);

  const std::string& name() const { return name_; }     // the path of a directory
  bool in_memory() const { return files_ != nullptr; }  // else in a directory, which may not exist
  std::string place(std::string_view file) const;       // its path, for messages
  bool has(std::string_view file) const;
  std::string read(std::string_view file) const;  // throws not_found or io, naming place()
  std::vector<std::string> names(
      std::string_view folder) const;  // of its files, sorted; none: no such folder

 private:
  std::string name_;
  std::shared_ptr<const std::map<std::string, std::string>> files_;  // null: in the directory
};

}  // namespace trl::base
