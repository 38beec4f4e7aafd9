#include "base/files/staged_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "base/error.h"
#include "base/files/host_files.h"
#include "base/text/number.h"

namespace trl::base {

namespace {

std::string parent_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

// Maps "checkpoint-3.1234.tmp" and "checkpoint-3.1234.old" to "checkpoint-3"; another name: empty.
std::string_view target_of(std::string_view name) {
  if (!name.ends_with(".tmp") && !name.ends_with(".old")) return {};
  name.remove_suffix(4);
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot + 1 == name.size()) return {};
  const std::string_view number = name.substr(dot + 1);
  const bool digits = std::ranges::all_of(number, [](char c) { return c >= '0' && c <= '9'; });
  return digits ? name.substr(0, dot) : std::string_view();
}

// Returns -1 if another process holds the lock, or the file does not exist. On a file system without locks
// nobody holds it.
int lock(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return -1;
  if (::flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return descriptor;
  ::close(descriptor);
  return -1;
}

bool remove_unlocked(const std::string& path) {
  const int descriptor = lock(path);
  if (descriptor < 0) return false;
  remove_tree(path);
  ::close(descriptor);
  return true;
}

// Returns the target of a link to a directory, /proc/self/fd/N too: files are written next to the target, on
// its file system.
std::string behind_link(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_symlink(path, error)) return path;
  const std::filesystem::path real = std::filesystem::canonical(path, error);
  return error ? path : real.string();
}

bool swap_names(const std::string& a, const std::string& b) {
  return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0;
}

bool swap_is_missing() { return errno == EINVAL || errno == ENOSYS || errno == ENOTSUP; }

}  // namespace

StagedDirectory::StagedDirectory(std::string target, const WriteFault* fault)
    : target_(std::move(target)), fault_(fault) {
  const size_t least = is_host_path(target_) ? kHostPath.size() : 1;
  while (target_.size() > least && target_.ends_with('/')) target_.pop_back();
  if (is_host_path(target_)) return;
  target_ = behind_link(target_);
  if (file_exists(target_) && !is_directory(target_))
    fail(Status::io, "{}: exists and is not a directory", target_);
  make_directories(parent_of(target_));
  staging_ = fmt::format("{}.{}.tmp", target_, ::getpid());
  if (file_exists(staging_) && !remove_unlocked(staging_))
    fail(Status::busy, "{}: is being written by another process", target_);
  make_directories(staging_, target_);
  lock_ = lock(staging_);
}

StagedDirectory::~StagedDirectory() {
  if (to_host()) {
    if (dropped_) drop_host_folder(target_);
    return;
  }
  remove_tree(staging_);
  if (lock_ >= 0) ::close(lock_);
}

void StagedDirectory::write(std::string_view name, const std::function<void(FileWriter&)>& body) {
  const std::string named = join_path(target_, name);
  const std::string path = to_host() ? named : join_path(staging_, name);
  if (to_host())
    dropped_ = true;
  else
    make_directories(parent_of(path), named);
  FileWriter writer(path, fault_, false, named);
  body(writer);
  writer.close();
  written_.push_back({std::string(name), writer.size(), writer.xxh3()});
}

void StagedDirectory::write(std::string_view name, std::string_view bytes) {
  write(name, [&](FileWriter& writer) { writer.write(bytes); });
}

void StagedDirectory::move(const std::string& from, const std::string& to) {
  if (fault_ != nullptr && *fault_) (*fault_)(to, 0);
  if (::rename(from.c_str(), to.c_str()) != 0) fail_errno(to, "cannot be created");
}

void StagedDirectory::commit_at_host() {
  dropped_ = true;
  if (fault_ != nullptr && *fault_) (*fault_)(target_, 0);
  write_host_file(HostWrite::done, target_, 0, {});
  dropped_ = false;
}

void StagedDirectory::commit_new() {
  move(staging_, target_);
  sync_directory(parent_of(target_));
}

// Syncs the folders of the written files, and the directory itself.
void StagedDirectory::sync(const std::string& directory) const {
  for (const File& file : written_)
    if (file.name.find('/') != std::string::npos) sync_directory(parent_of(join_path(directory, file.name)));
  sync_directory(directory);
}

void StagedDirectory::commit() {
  if (to_host()) return commit_at_host();
  sync(staging_);
  if (!file_exists(target_)) return commit_new();
  std::vector<std::function<void()>> undo;  // the old files are in staging_ until all is done
  try {
    for (const File& file : written_) {
      const std::string from = join_path(staging_, file.name), to = join_path(target_, file.name);
      if (fault_ != nullptr && *fault_) (*fault_)(to, 0);
      make_directories(parent_of(to));
      if (swap_names(from, to)) {
        undo.push_back([from, to] { swap_names(from, to); });
      } else if (errno == ENOENT) {
        if (::rename(from.c_str(), to.c_str()) != 0) fail_errno(to, "cannot be created");
        undo.push_back([from, to] { ::rename(to.c_str(), from.c_str()); });
      } else if (!swap_is_missing() || ::rename(from.c_str(), to.c_str()) != 0) {
        fail_errno(to, "cannot be replaced");
      }
    }
    for (const std::string& name : replaced_) {
      const std::string from = join_path(target_, name), to = join_path(staging_, name);
      make_directories(parent_of(to));
      move(from, to);
      undo.push_back([from, to] { ::rename(to.c_str(), from.c_str()); });
    }
    sync(target_);
  } catch (...) {
    for (size_t i = undo.size(); i-- > 0;) undo[i]();
    throw;
  }
}

void StagedDirectory::commit_whole() {
  if (to_host()) return commit_at_host();
  sync(staging_);
  if (!file_exists(target_)) return commit_new();
  if (fault_ != nullptr && *fault_) (*fault_)(target_, 0);
  if (!swap_names(staging_, target_)) {
    if (!swap_is_missing()) fail_errno(target_, "cannot be replaced");
    remove_directory(target_);
    return commit_new();
  }
  sync_directory(parent_of(target_));
}

void remove_directory(const std::string& path) {
  const std::string aside = fmt::format("{}.{}.old", path, ::getpid());
  remove_tree(aside);
  if (::rename(path.c_str(), aside.c_str()) != 0) fail_errno(path, "cannot be removed");
  remove_tree(aside);
}

void clear_unfinished(const std::string& directory, const std::function<bool(std::string_view)>& is_ours) {
  if (!is_directory(directory)) return;
  for (const std::string& name : list_directory(directory)) {
    const std::string_view target = target_of(name);
    if (!target.empty() && is_ours(target)) remove_unlocked(join_path(directory, name));
  }
}

}  // namespace trl::base
