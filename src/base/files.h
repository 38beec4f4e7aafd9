// Files: whole reads, read-only maps, and directories that appear whole or not at all. Every write goes
// through here, so that tests can make the Nth one fail.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trl::base {

std::string system_reason(int code);  // of an errno, in English: "No such file or directory"
bool file_exists(const std::string& path);
bool is_directory(const std::string& path);
std::string read_file(const std::string& path);                    // throws not_found or io, naming the path
std::vector<std::string> list_directory(const std::string& path);  // names, sorted
void make_directories(const std::string& path);
void remove_tree(const std::string& path) noexcept;
std::string join_path(std::string_view directory, std::string_view name);
std::string file_name(std::string_view path);  // the last component

// A whole file mapped read-only (private). Movable; the bytes live as long as the object.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  std::string_view bytes() const { return {data_, size_}; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  const char* data_ = nullptr;
  size_t size_ = 0;
};

// Called before each write to disk with the path and byte count; may throw. Empty: none. For tests.
using WriteFault = std::function<void(const std::string& path, size_t bytes)>;

// A file written in pieces, synced by close().
class FileWriter {
 public:
  explicit FileWriter(const std::string& path, const WriteFault* fault = nullptr);
  ~FileWriter();  // closes; what was not close()d may be incomplete
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  void write(std::string_view bytes);
  void write(const void* data, size_t size) { write({static_cast<const char*>(data), size}); }
  void close();  // flush, fsync, close

 private:
  std::string path_;
  const WriteFault* fault_;
  int descriptor_ = -1;
};

void write_file(const std::string& path, std::string_view bytes, const WriteFault* fault = nullptr);
// Written aside, synced, renamed over path.
void replace_file(const std::string& path, std::string_view bytes, const WriteFault* fault = nullptr);

// Files that become visible together: everything is written below staging(), synced, then moved into target
// by commit(). When target is new it appears by one rename. When it exists, its other files stay and each
// staged file replaces its namesake by a rename, the one named last (the marker) last. Without commit() the
// staging directory is removed and target is as it was.
class StagedDirectory {
 public:
  explicit StagedDirectory(std::string target, const WriteFault* fault = nullptr);
  ~StagedDirectory();
  StagedDirectory(const StagedDirectory&) = delete;
  StagedDirectory& operator=(const StagedDirectory&) = delete;
  const std::string& staging() const { return staging_; }
  const WriteFault* fault() const { return fault_; }
  void write(std::string_view name, std::string_view bytes);
  // Names in target that commit() must remove (weight shards of an earlier save that are not written again).
  void replaces(std::string name) { replaced_.push_back(std::move(name)); }
  void commit();

 private:
  std::string target_;
  std::string staging_;
  const WriteFault* fault_;
  std::vector<std::string> replaced_;
  bool committed_ = false;
};

}  // namespace trl::base
