// Hidden states on disk, a file for each document under a key that identifies their inputs. A file appears
// whole, two processes that write it write the same bytes, and a damaged one counts as missing.
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
