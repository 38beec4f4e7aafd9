// Directories that appear whole or not at all: written aside as "<target>.<process id>.tmp", synced, renamed.
// A host (host_files.h) gets each file at its place, and is told whether the folder is complete or to be
// dropped.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/files.h"

namespace trl::base {

// Makes files visible together: everything is written below staging(), then moved into target by commit() or
// commit_whole(). Without a commit, or if it fails, the staging directory is removed and target is unchanged.
// A lock on the staging directory says that its process lives.
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

  // name: a file's name, which may include a folder.
  void write(std::string_view name, std::string_view bytes);
  void write(std::string_view name, const std::function<void(FileWriter&)>& body);  // body does not close
  const std::vector<File>& written() const { return written_; }
  // Names in target that commit() must remove (weight shards of an earlier save that are not written again).
  void replaces(std::string name) { replaced_.push_back(std::move(name)); }

  // Makes a new target appear by one rename. In an existing target, each written file replaces its namesake
  // and the other files stay.
  void commit();
  // Replaces an existing target completely.
  void commit_whole();

 private:
  bool to_host() const { return staging_.empty(); }
  void commit_at_host();
  void commit_new();
  void sync(const std::string& directory) const;
  void move(const std::string& from, const std::string& to);

  std::string target_;
  std::string staging_;   // empty: the host's
  bool dropped_ = false;  // if it ends now, the host has to drop what it got
  const WriteFault* fault_;
  int lock_ = -1;
  std::vector<File> written_;
  std::vector<std::string> replaced_;
};

// Renames the directory aside first, so that it is complete or absent even while it is being removed.
void remove_directory(const std::string& path);

// Removes the leftovers in `directory` of a process that ended before its commit: "<target>.<number>.tmp" and
// ".old" if is_ours(target), unless that process lives.
void clear_unfinished(const std::string& directory, const std::function<bool(std::string_view)>& is_ours);

}  // namespace trl::base
