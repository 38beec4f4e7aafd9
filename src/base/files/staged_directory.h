// Directories that appear whole or not at all: written aside as "<target>.<process id>.tmp", synced, renamed.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/files.h"

namespace trl::base {

// Files that become visible together: everything is written below staging(), then moved into target by
// commit() or commit_whole(). Without one of them, or where it fails, the staging directory is removed and
// target is as it was. A lock on the staging directory says that its process lives.
class StagedDirectory {
 public:
  struct File {
    std::string name;
    uint64_t size;
    uint64_t xxh3;
  };

  explicit StagedDirectory(std::string target, const WriteFault* fault = nullptr);
  ~StagedDirectory();
  StagedDirectory(const StagedDirectory&) = delete;
  StagedDirectory& operator=(const StagedDirectory&) = delete;

  // name: of a file, also of one in a folder.
  void write(std::string_view name, std::string_view bytes);
  void write(std::string_view name, const std::function<void(FileWriter&)>& body);  // body does not close
  const std::vector<File>& written() const { return written_; }
  // Names in target that commit() must remove (weight shards of an earlier save that are not written again).
  void replaces(std::string name) { replaced_.push_back(std::move(name)); }

  // A new target appears by one rename. Of one that exists the other files stay, and each written file takes
  // the place of its namesake.
  void commit();
  // Replaces an existing target completely.
  void commit_whole();

 private:
  void commit_new();
  void sync(const std::string& directory) const;
  void move(const std::string& from, const std::string& to);

  std::string target_;
  std::string staging_;
  const WriteFault* fault_;
  int lock_ = -1;
  std::vector<File> written_;
  std::vector<std::string> replaced_;
};

// Renames the directory aside first, so that it is complete or absent even while it is being removed.
void remove_directory(const std::string& path);

// Removes what a process that ended before its commit left in `directory`: "<target>.<number>.tmp" and
// ".old" where is_ours(target), unless that process lives.
void clear_unfinished(const std::string& directory, const std::function<bool(std::string_view)>& is_ours);

}  // namespace trl::base
