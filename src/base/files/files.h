// Files: whole reads, read-only maps, and writing. Every write and rename goes through here and
// staged_directory.h, so that tests can make the Nth one fail. A path may be one of the host's
// (host_files.h): its folders exist as soon as they are mounted, and are never listed.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/hash.h"

namespace trl::base {

std::string system_reason(int code);  // English text for an errno: "No such file or directory"
bool file_exists(const std::string& path);
bool is_directory(const std::string& path);
std::string read_file(const std::string& path);                // throws not_found or io, naming the path
uint64_t file_size(const std::string& path);                   // throws the same
std::string file_start(const std::string& path, size_t most);  // its first bytes; throws the same
// Throws Error(format) for the pointer that a clone without Git LFS leaves instead of a large file.
void refuse_lfs_pointer(std::string_view bytes, const std::string& path);
std::vector<std::string> list_directory(const std::string& path);  // names, sorted
// named: in the message; empty: path.
void make_directories(const std::string& path, const std::string& named = "");
std::string nearest_existing(const std::string& path);  // the path, or the nearest existing one above it
void remove_tree(const std::string& path) noexcept;
std::string temporary_directory();  // the one that TMPDIR names; /tmp if TMPDIR names no directory
std::string join_path(std::string_view directory, std::string_view name);
std::string file_name(std::string_view path);  // the last component
// Returns whether the path names a file below a directory: no component is empty, "." or "..".
bool is_plain_path(std::string_view path);

struct MappedRange;
class HostMemory;

// A whole file mapped read-only (private). Movable; the bytes live as long as the object.
class MappedFile {
 public:
  // late: the user asks for each part of a host's file by need(), or by fetch(), before it reads it.
  explicit MappedFile(const std::string& path, bool late = false);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  std::string_view bytes() const { return {data_, size_}; }
  // Throws Error(io) if the file has become shorter since it was mapped, or a read of it failed within a
  // MappedReads (mapped_reads.h). Another file of its name changes nothing.
  void check() const;
  // Reads a part of a host's file that was opened late; throws the host's errors. Of other memory it does
  // nothing.
  static void need(std::string_view part);
  // Says that a part of a map will be read soon (fetch, which also needs it), or has been read (drop): the
  // kernel fetches its pages, or takes them out of this process (a later read fetches them again). drop()
  // leaves memory that is not a mapped file's as it is.
  static void fetch(std::string_view part);
  static void drop(std::string_view part) noexcept;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  const char* data_ = nullptr;
  size_t size_ = 0;
  uint64_t device_ = 0, inode_ = 0;
  MappedRange* range_ = nullptr;
  std::unique_ptr<HostMemory> host_;  // of a host's file, in place of a map
};

// Called, for tests, before each write to disk with the path and the byte count, and before each rename with
// the new path and 0; may throw. Empty: not called.
using WriteFault = std::function<void(const std::string& path, size_t bytes)>;

// A file written in pieces, synced by close(). Nothing is buffered, except for the host's: its pieces have up
// to 1 MB.
class FileWriter {
 public:
  // named: the file that it will become, for messages; empty: path.
  explicit FileWriter(const std::string& path, const WriteFault* fault = nullptr, bool append = false,
                      const std::string& named = "");
  ~FileWriter();  // closes; a file without close() may be incomplete
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;
  void write(std::string_view bytes);
  void write(const void* data, size_t size) { write({static_cast<const char*>(data), size}); }
  void close();  // fsync, close; a host's file: its last piece
  uint64_t size() const { return size_; }
  uint64_t xxh3() const { return hash_.digest(); }  // hash of all bytes written so far

 private:
  void give_to_host();

  std::string path_, named_;
  const WriteFault* fault_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
  Xxh3 hash_;
  const bool to_host_;
  std::string waiting_;  // for the host
  uint64_t given_ = 0;   // bytes that the host has taken
};

void write_file(const std::string& path, std::string_view bytes, const WriteFault* fault = nullptr);
// Appends without a sync: for lines that are not worth the time of one.
void append_file(const std::string& path, std::string_view bytes);
// Writes a temporary file, syncs it and renames it over path.
void replace_file(const std::string& path, std::string_view bytes, const WriteFault* fault = nullptr);
void replace_file(const std::string& path, const std::function<void(FileWriter&)>& body,
                  const WriteFault* fault = nullptr);  // body does not close
void sync_directory(const std::string& path);          // makes renames in it survive a power cut
// Returns XXH3 of a file's bytes, read in pieces; throws not_found or io.
uint64_t file_xxh3(const std::string& path);
// Throws not_found or io for the current errno and a path.
[[noreturn]] void fail_errno(const std::string& path, std::string_view what);

// Checks, before the work that produces them, that files can be written into a directory; leaves nothing
// there. Throws Error(io) if none can; the message names the directory, or the nearest existing one above it.
void need_writable_directory(const std::string& path);

}  // namespace trl::base
