// Hidden states on disk, a file for each document under a key that says what they were computed from. A file
// appears whole, two processes that write it write the same bytes, and a damaged one counts as missing.
#pragma once
#include <atomic>
#include <mutex>
#include <span>
#include <string>

#include "base/files/files.h"
#include "base/json/json.h"
#include "base/log.h"

namespace trl::memory {

class StateFiles {
 public:
  struct Options {
    std::string directory;
    bool zstd = false;  // files are compressed where that makes them smaller; either kind is read
    base::LogSink* log = nullptr;
    const base::WriteFault* write_fault = nullptr;  // of the tests
  };
  // about: what all states of the directory have in common, kept there under this name. Writes nothing yet.
  // Throws Error(invalid_config) where the directory holds states of something else, which it names, and
  // Error(format) where that file cannot be understood.
  StateFiles(Options options, const base::Json& about);

  // key: lower-case hexadecimal digits, at least three. Any thread.
  bool has(const std::string& key) const;
  // false: there are none, or the file is damaged, which a warning says.
  bool read(const std::string& key, std::span<char> states) const;
  // Where that fails, a warning says so once, and nothing more is written.
  void write(const std::string& key, std::string_view states);

 private:
  void check_owner(const base::Json& about) const;
  void begin();  // directory, and what it is of
  void clear() const;
  std::string path(const std::string& key) const;
  std::string file_of_owner() const { return base::join_path(options_.directory, "frozen_layers.json"); }

  const Options options_;
  const std::string about_;
  std::once_flag begun_;
  std::atomic<bool> failed_{false};
};

}  // namespace trl::memory
