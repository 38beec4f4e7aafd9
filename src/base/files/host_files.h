// Files that the host of the library reads and writes itself: paths "host://NAME/FILE" of what it mounted.
// The functions of files.h, MappedFile, FileWriter and StagedDirectory take such paths as they take others.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace trl::base {

inline constexpr std::string_view kHostPath = "host://";
inline bool is_host_path(std::string_view path) { return path.starts_with(kHostPath); }

// Makes a path whole, against the working directory. One of the host is whole.
std::string absolute_path(const std::string& path);

// The values are those of TRL_WRITE_*.
enum class HostWrite : int32_t { data = 0, done = 1, dropped = 2 };

// The host's functions by path. libtrl.so has the only instance of a process, and lends it to the engine.
// Call on a thread that is inside a call.
class HostFiles {
 public:
  struct Answer {
    int64_t value = 0;                // bytes; negative: there is no such file
    std::optional<Error> error = {};  // then value means nothing
  };
  virtual Answer size(const std::string& path) noexcept = 0;
  // Puts at most `size` bytes into buffer, which value counts.
  virtual Answer read(const std::string& path, uint64_t offset, void* buffer, size_t size) noexcept = 0;
  virtual Answer write(HostWrite what, const std::string& path, uint64_t offset,
                       std::string_view data) noexcept = 0;
  // Counts memory that weights are read into.
  virtual Answer charge(const std::string& path, int64_t bytes) noexcept = 0;
  virtual void release(int64_t bytes) noexcept = 0;

 protected:
  ~HostFiles() = default;
};

// Sets those of this library; null: nothing is mounted.
void set_host_files(HostFiles* files) noexcept;

// The functions below throw the host's errors, and take only paths of the host.
std::optional<uint64_t> host_file_size(const std::string& path);  // nullopt: there is no such file
uint64_t need_host_file(const std::string& path);                 // its size; throws not_found
// Fills the buffer. Throws Error(io) if the file ends before.
void read_host_file(const std::string& path, uint64_t offset, char* buffer, size_t size);
void write_host_file(HostWrite what, const std::string& path, uint64_t offset, std::string_view data);
void drop_host_folder(const std::string& path) noexcept;  // HostWrite::dropped, whatever the host answers

// A file of the host at an address, which begins a page. Parts are read when they are needed, and counted as
// weights while they are here; what was not read is zeros.
class HostMemory {
 public:
  explicit HostMemory(const std::string& path);  // throws not_found
  ~HostMemory();
  HostMemory(const HostMemory&) = delete;
  HostMemory& operator=(const HostMemory&) = delete;
  std::string_view bytes() const { return {data_, size_}; }
  // Reads what is missing of a part of bytes().
  void need(std::string_view part);
  void drop(std::string_view part) noexcept;
  // Returns the one that an address lies in, or null.
  static HostMemory* find(const char* at) noexcept;

 private:
  using Ranges = std::map<size_t, size_t>;  // begin -> end; apart from each other
  Ranges missing(size_t begin, size_t end) const;
  void read(size_t begin, size_t end);

  const std::string path_;
  char* data_ = nullptr;
  size_t size_ = 0;
  std::mutex mutex_;
  Ranges here_;
};

}  // namespace trl::base
