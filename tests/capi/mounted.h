// Files that the host of the library has in memory, encrypted, and what it was asked and told.
#pragma once
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>

#include "host.h"

namespace host {

class Mounted {
 public:
  explicit Mounted(std::string name) : name_(std::move(name)) {}
  Mounted(const Mounted&) = delete;
  Mounted& operator=(const Mounted&) = delete;

  const std::string& name() const { return name_; }
  std::string path(const std::string& file = "") const {
    return "host://" + name_ + (file.empty() ? "" : "/" + file);
  }
  trl_status mount(trl_runtime* runtime, trl_error** error = nullptr) {
    return trl_runtime_mount(runtime, name_.c_str(), read, write, this, destroy, error);
  }

  void put(const std::string& file, const std::string& bytes) { files_[file] = turned(bytes); }
  // Takes all files of a directory into a folder ("": the mount itself).
  void take(const std::filesystem::path& directory, const std::string& folder = "") {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
      if (!entry.is_regular_file()) continue;
      const std::string file = std::filesystem::relative(entry.path(), directory);
      put(folder.empty() ? file : folder + "/" + file, read_file(entry.path()));
    }
  }
  void remove(const std::string& file) { files_.erase(file); }
  bool has(const std::string& file) const { return files_.count(file) != 0; }
  std::string get(const std::string& file) const { return has(file) ? turned(files_.at(file)) : ""; }
  // The files of a folder, by their path in it.
  std::map<std::string, std::string> folder(const std::string& name) const {
    std::map<std::string, std::string> found;
    for (const auto& [file, bytes] : files_)
      if (file.compare(0, name.size() + 1, name + "/") == 0)
        found[file.substr(name.size() + 1)] = turned(bytes);
    return found;
  }

  // Answers in place of the files if it returns something other than kGoOn.
  static constexpr int64_t kGoOn = 1LL << 60;
  std::function<int64_t(const std::string& file, uint64_t offset, size_t size)> on_read;
  int fail_write = -1;  // the call that fails, from 0
  int32_t write_code = -5;
  int writes = 0;
  int done = 0, dropped = 0, destroyed = 0;
  size_t largest_piece = 0;
  std::map<std::string, uint64_t> bytes_read;

 private:
  static std::string turned(std::string bytes) {
    for (char& c : bytes) c = static_cast<char>(c ^ 0x5a);
    return bytes;
  }

  static int64_t read(void* self, const char* file, uint64_t offset, void* buffer, size_t size) {
    Mounted& on = *static_cast<Mounted*>(self);
    if (on.on_read) {
      const int64_t answer = on.on_read(file, offset, size);
      if (answer != kGoOn) return answer;
    }
    const auto found = on.files_.find(file);
    if (found == on.files_.end()) return TRL_E_NOT_FOUND;
    const std::string& bytes = found->second;
    if (buffer == nullptr) return static_cast<int64_t>(bytes.size());
    if (offset >= bytes.size()) return 0;
    const std::string part = turned(bytes.substr(offset, size));
    std::memcpy(buffer, part.data(), part.size());
    on.bytes_read[file] += part.size();
    return static_cast<int64_t>(part.size());
  }

  // What is written is seen when it is complete, in place of what the folder had.
  static int32_t write(void* self, int32_t what, const char* file, uint64_t offset, const void* data,
                       size_t size) {
    Mounted& on = *static_cast<Mounted*>(self);
    const bool fails = on.writes++ == on.fail_write;
    if (what == TRL_WRITE_DROPPED) {
      ++on.dropped;
      on.coming_.clear();
      return 0;
    }
    if (fails) return on.write_code;
    if (what == TRL_WRITE_DATA) {
      EXPECT_NE(data, nullptr) << file;
      EXPECT_EQ(offset, on.coming_[file].size()) << file;
      on.coming_[file].append(static_cast<const char*>(data), size);
      on.largest_piece = std::max(on.largest_piece, size);
      return 0;
    }
    EXPECT_EQ(what, TRL_WRITE_DONE);
    EXPECT_EQ(data, nullptr);
    ++on.done;
    const std::string begin = *file == '\0' ? "" : std::string(file) + "/";
    const auto inside = [&](const std::string& name) { return name.compare(0, begin.size(), begin) == 0; };
    for (auto it = on.files_.begin(); it != on.files_.end();)
      it = inside(it->first) ? on.files_.erase(it) : std::next(it);
    for (const auto& [name, bytes] : on.coming_) {
      EXPECT_TRUE(inside(name)) << name;
      on.put(name, bytes);
    }
    on.coming_.clear();
    return 0;
  }

  static void destroy(void* self) { ++static_cast<Mounted*>(self)->destroyed; }

  const std::string name_;
  std::map<std::string, std::string> files_;   // encrypted
  std::map<std::string, std::string> coming_;  // of a save that is not complete
};

}  // namespace host
