#include "base/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/error.h"

namespace trl::base {

namespace fs = std::filesystem;

std::string system_reason(int code) {
  const char* text = strerrordesc_np(code);  // strerror speaks the language of the process's locale
  return text != nullptr ? text : fmt::format("error {}", code);
}

namespace {

[[noreturn]] void fail_errno(const std::string& path, std::string_view what) {
  const int code = errno;
  fail(code == ENOENT ? Status::not_found : Status::io, "{}: {}: {}", path, what, system_reason(code));
}

int open_read(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail_errno(path, "cannot be opened");
  return descriptor;
}

size_t size_of(int descriptor, const std::string& path) {
  struct stat info {};
  if (::fstat(descriptor, &info) != 0 || S_ISDIR(info.st_mode)) {
    if (S_ISDIR(info.st_mode)) errno = EISDIR;
    const int code = errno;
    ::close(descriptor);
    errno = code;
    fail_errno(path, "cannot be read");
  }
  return static_cast<size_t>(info.st_size);
}

void sync_directory(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail_errno(path, "cannot be opened");
  const int result = ::fsync(descriptor);
  ::close(descriptor);
  if (result != 0 && errno != EINVAL) fail_errno(path, "cannot be synced");
}

}  // namespace

bool file_exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

bool is_directory(const std::string& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

std::string read_file(const std::string& path) {
  const int descriptor = open_read(path);
  const size_t size = size_of(descriptor, path);
  std::string bytes;
  bytes.reserve(size);
  char buffer[1 << 16];
  for (;;) {
    const ssize_t got = ::read(descriptor, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      const int code = errno;
      ::close(descriptor);
      errno = code;
      fail_errno(path, "cannot be read");
    }
    if (got == 0) break;
    bytes.append(buffer, static_cast<size_t>(got));
  }
  ::close(descriptor);
  return bytes;
}

std::vector<std::string> list_directory(const std::string& path) {
  std::error_code error;
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(path, error))
    names.push_back(entry.path().filename().string());
  if (error) fail(Status::io, "{}: cannot be listed: {}", path, system_reason(error.value()));
  std::sort(names.begin(), names.end());
  return names;
}

void make_directories(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) fail(Status::io, "{}: cannot be created: {}", path, system_reason(error.value()));
}

void remove_tree(const std::string& path) noexcept {
  std::error_code error;
  fs::remove_all(path, error);
}

std::string join_path(std::string_view directory, std::string_view name) {
  return (fs::path(directory) / fs::path(name)).string();
}

std::string file_name(std::string_view path) { return fs::path(path).filename().string(); }

MappedFile::MappedFile(const std::string& path) : path_(path) {
  const int descriptor = open_read(path);
  size_ = size_of(descriptor, path);
  if (size_ > 0) {
    void* mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (mapped == MAP_FAILED) {
      const int code = errno;
      ::close(descriptor);
      errno = code;
      fail_errno(path, "cannot be mapped");
    }
    data_ = static_cast<const char*>(mapped);
  }
  ::close(descriptor);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<char*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)) {}

FileWriter::FileWriter(const std::string& path, const WriteFault* fault) : path_(path), fault_(fault) {
  descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail_errno(path_, "cannot be written");
}

FileWriter::~FileWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void FileWriter::write(std::string_view bytes) {
  if (fault_ != nullptr && *fault_) (*fault_)(path_, bytes.size());
  while (!bytes.empty()) {
    const ssize_t done = ::write(descriptor_, bytes.data(), std::min<size_t>(bytes.size(), 1u << 30));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail_errno(path_, "cannot be written");
    bytes.remove_prefix(static_cast<size_t>(done));
  }
}

void FileWriter::close() {
  if (::fsync(descriptor_) != 0 && errno != EINVAL) fail_errno(path_, "cannot be synced");
  const int descriptor = std::exchange(descriptor_, -1);
  if (::close(descriptor) != 0) fail_errno(path_, "cannot be closed");
}

void write_file(const std::string& path, std::string_view bytes, const WriteFault* fault) {
  FileWriter writer(path, fault);
  writer.write(bytes);
  writer.close();
}

void replace_file(const std::string& path, std::string_view bytes, const WriteFault* fault) {
  const std::string aside = fmt::format("{}.{}.tmp", path, ::getpid());
  try {
    write_file(aside, bytes, fault);
    if (::rename(aside.c_str(), path.c_str()) != 0) fail_errno(path, "cannot be replaced");
  } catch (...) {
    ::unlink(aside.c_str());
    throw;
  }
  const std::string parent = fs::path(path).parent_path().string();
  sync_directory(parent.empty() ? "." : parent);
}

StagedDirectory::StagedDirectory(std::string target, const WriteFault* fault)
    : target_(std::move(target)), fault_(fault) {
  while (target_.size() > 1 && target_.ends_with('/')) target_.pop_back();
  if (file_exists(target_) && !is_directory(target_))
    fail(Status::io, "{}: exists and is not a directory", target_);
  const std::string parent = fs::path(target_).parent_path().string();
  if (!parent.empty()) make_directories(parent);
  staging_ = fmt::format("{}.{}.tmp", target_, ::getpid());
  remove_tree(staging_);
  make_directories(staging_);
}

StagedDirectory::~StagedDirectory() {
  if (!committed_) remove_tree(staging_);
}

void StagedDirectory::write(std::string_view name, std::string_view bytes) {
  write_file(join_path(staging_, name), bytes, fault_);
}

void StagedDirectory::commit() {
  sync_directory(staging_);
  const std::string parent = fs::path(target_).parent_path().string();
  if (!file_exists(target_)) {
    if (::rename(staging_.c_str(), target_.c_str()) != 0) fail_errno(target_, "cannot be created");
  } else {
    for (const std::string& name : list_directory(staging_)) {
      const std::string from = join_path(staging_, name);
      const std::string to = join_path(target_, name);
      if (::rename(from.c_str(), to.c_str()) != 0) fail_errno(to, "cannot be replaced");
    }
    for (const std::string& name : replaced_) ::unlink(join_path(target_, name).c_str());
    sync_directory(target_);
    remove_tree(staging_);
  }
  committed_ = true;
  sync_directory(parent.empty() ? "." : parent);
}

}  // namespace trl::base
