// Data on disk in place of memory: files without a name, memory that is one, and files of states.
#pragma once
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "base/files/files.h"
#include "base/files/mapped_reads.h"
#include "base/json/json.h"
#include "base/log.h"

namespace trl::memory {

// A file without a name, for offloaded data: it disappears with this object, whatever ends the process.
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

// Memory that is a file without a name: its pages leave this process when they are released, and are read
// back from the page cache or the disk on access.
class PagedMemory {
 public:
  // Zeros, in an UnnamedFile of the directory; throws its errors. what: the content, for messages. In a
  // rehearsal no file is made and no disk space used.
  PagedMemory(const std::string& directory, int64_t bytes, const std::string& what);
  ~PagedMemory();
  PagedMemory(const PagedMemory&) = delete;
  PagedMemory& operator=(const PagedMemory&) = delete;

  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  // Starts writing the changes to the disk, and removes the pages from this process. Any thread.
  void release(const void* begin, int64_t bytes) const noexcept;
  // Throws Error(io) if the disk could not read a page, which has been zeros since then.
  void check() const;

 private:
  std::optional<UnnamedFile> file_;  // empty in a rehearsal
  const int64_t bytes_;
  char* data_ = nullptr;
  base::MappedRange* range_ = nullptr;
};

// The speed at which the disk of a directory writes offloaded data and reads it back.
struct DiskSpeed {
  double write = 0, read = 0;  // bytes per second
};
// Measured with 64 MiB in an unnamed file in the directory, or as much as a third of a second allows, and
// then remembered. Throws the errors of UnnamedFile, and Error(io).
DiskSpeed disk_speed(const std::string& directory);

// Hidden states on disk, a file for each document under a key that identifies their inputs. A file appears
// whole, two processes that write it write the same bytes, and a damaged one counts as missing.
class StateFiles {
 public:
  struct Options {
    std::string directory;
    bool zstd = false;  // files are compressed if that makes them smaller; both kinds are read
    base::LogSink* log = nullptr;
    const base::WriteFault* write_fault = nullptr;  // for tests
  };
  // about: common to all states of the directory, and stored there under this name. Writes nothing yet.
  // Throws Error(invalid_config) if the directory holds states of something else, which it names, and
  // Error(format) if that file cannot be parsed.
  StateFiles(Options options, const base::Json& about);

  // key: lower-case hexadecimal digits, at least three. Any thread.
  bool has(const std::string& key) const;
  // Returns false if there are none, or if the file is damaged, in which case it warns.
  bool read(const std::string& key, std::span<char> states) const;
  // If writing fails, warns once and writes nothing more.
  void write(const std::string& key, std::string_view states);

 private:
  void check_owner(const base::Json& about) const;
  void begin();  // makes the directory and writes `about`
  void clear() const;
  std::string path(const std::string& key) const;
  std::string file_of_owner() const { return base::join_path(options_.directory, "frozen_layers.json"); }

  const Options options_;
  const std::string about_;
  std::once_flag begun_;
  std::atomic<bool> failed_{false};
};

}  // namespace trl::memory
