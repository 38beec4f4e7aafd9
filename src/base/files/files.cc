#include "base/files/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/files/host_files.h"
#include "base/files/mapped_reads.h"
#include "base/interrupt.h"

namespace trl::base {

namespace {

constexpr size_t kAtOnce = size_t{1} << 20;  // of a file at once

// Makes a file with a name and removes it at once, for file systems without nameless files. /proc and /sys
// let root pass every check of access rights, but accept no file.
int try_to_make_file(const std::string& directory) {
  std::string path = directory + "/.trl-XXXXXX";
  const int file = ::mkostemp(path.data(), O_CLOEXEC);
  if (file < 0) return errno == ENOENT ? EPERM : errno;  // the directory is there
  ::close(file);
  ::unlink(path.c_str());
  return 0;
}

// Opens a file without a name, which disappears when it is closed.
int try_to_write(const std::string& directory) {
  const int file = ::open(directory.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
  if (file >= 0) {
    ::close(file);
    return 0;
  }
  if (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT && errno != EINVAL) return errno;
  return try_to_make_file(directory);
}

}  // namespace

namespace fs = std::filesystem;

std::string system_reason(int code) {
  const char* text = strerrordesc_np(code);  // strerror speaks the language of the process's locale
  return text != nullptr ? text : fmt::format("error {}", code);
}

namespace {

// A file opened to be read; a directory is an error.
class Descriptor {
 public:
  // flags: O_NONBLOCK refuses all but regular files, and does not wait for the writer of a pipe to do so.
  explicit Descriptor(const std::string& path, int flags = 0)
      : path_(path), descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags)) {
    if (descriptor_ < 0) fail_errno(path, "cannot be opened");
    struct stat info {};
    const int failed = ::fstat(descriptor_, &info);
    if (failed != 0 || S_ISDIR(info.st_mode)) {
      const int code = failed != 0 ? errno : EISDIR;
      ::close(descriptor_);
      errno = code;
      fail_errno(path, "cannot be read");
    }
    if (flags != 0 && !S_ISREG(info.st_mode)) {
      ::close(descriptor_);
      fail(Status::io, "{}: not a regular file; give one", Place::in(path));
    }
    size_ = static_cast<size_t>(info.st_size);
    device_ = info.st_dev;
    inode_ = info.st_ino;
  }
  ~Descriptor() { ::close(descriptor_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return descriptor_; }
  size_t size() const { return size_; }
  uint64_t device() const { return device_; }
  uint64_t inode() const { return inode_; }

  template <class Body>
  void read_all(Body&& body) const {
    std::vector<char> buffer(1 << 18);
    for (size_t pieces = 1;; ++pieces) {
      if (pieces % 16 == 0) poll();
      const ssize_t got = ::read(descriptor_, buffer.data(), buffer.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail_errno(path_, "cannot be read");
      if (got == 0) return;
      body(std::string_view(buffer.data(), static_cast<size_t>(got)));
    }
  }

 private:
  const std::string& path_;
  const int descriptor_;
  size_t size_ = 0;
  uint64_t device_ = 0, inode_ = 0;
};

// Calls body with a host's file, piece by piece: no memory is taken for bytes that the host only promises.
template <class Body>
void read_all_of_host(const std::string& path, Body&& body) {
  const uint64_t size = need_host_file(path);
  std::string piece;
  for (uint64_t at = 0; at < size; at += piece.size()) {
    piece.resize(std::min<uint64_t>(kAtOnce, size - at));
    read_host_file(path, at, piece.data(), piece.size());
    body(piece);
  }
}

}  // namespace

void fail_errno(const std::string& path, std::string_view what) {
  const int code = errno;
  fail(code == ENOENT ? Status::not_found : Status::io, "{}: {}: {}", Place::in(path), what,
       system_reason(code));
}

void sync_directory(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail_errno(path, "cannot be opened");
  const int result = ::fsync(descriptor);
  ::close(descriptor);
  if (result != 0 && errno != EINVAL) fail_errno(path, "cannot be synced");
}

bool file_exists(const std::string& path) {
  if (is_host_path(path)) return host_file_size(path).has_value();
  std::error_code error;
  return fs::exists(path, error);
}

bool is_directory(const std::string& path) {
  if (is_host_path(path)) return !file_exists(path);
  std::error_code error;
  return fs::is_directory(path, error);
}

std::string read_file(const std::string& path) {
  return reading(path, [&] {
    std::string bytes;
    const auto append = [&](std::string_view piece) { bytes.append(piece); };
    if (is_host_path(path)) {
      read_all_of_host(path, append);
      return bytes;
    }
    const Descriptor descriptor(path);
    bytes.reserve(descriptor.size());
    descriptor.read_all(append);
    return bytes;
  });
}

uint64_t file_size(const std::string& path) {
  return is_host_path(path) ? need_host_file(path) : Descriptor(path, O_NONBLOCK).size();
}

std::string file_start(const std::string& path, size_t most) {
  std::string bytes;
  if (is_host_path(path)) {
    bytes.resize(std::min<uint64_t>(most, need_host_file(path)));
    read_host_file(path, 0, bytes.data(), bytes.size());
    return bytes;
  }
  const MappedFile file(path);
  return std::string(file.bytes().substr(0, most));
}

uint64_t file_xxh3(const std::string& path) {
  Xxh3 hash;
  if (is_host_path(path)) {
    read_all_of_host(path, [&](std::string_view piece) { hash.update(piece); });
    return hash.digest();
  }
  Descriptor(path, O_NONBLOCK).read_all([&](std::string_view piece) {
    poll();
    hash.update(piece);
  });
  return hash.digest();
}

std::vector<std::string> list_directory(const std::string& path) {
  std::vector<std::string> names;
  if (is_host_path(path)) return names;
  // fs::directory_iterator would end the process where no memory is left for a path.
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), ::closedir);
  int reason = folder == nullptr ? errno : 0;
  while (folder != nullptr) {
    errno = 0;
    const dirent* const entry = ::readdir(folder.get());
    reason = errno;
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  if (reason != 0) fail(Status::io, "{}: cannot be listed: {}", Place::in(path), system_reason(reason));
  std::ranges::sort(names);
  return names;
}

void make_directories(const std::string& path, const std::string& named) {
  std::error_code error;
  if (is_host_path(path))
    fail(Status::unsupported, "{}: what a call saves is written to the host's files, and nothing else", path);
  fs::create_directories(path, error);
  if (!error) return;
  fail(Status::io, "{}: cannot be created: {}", named.empty() ? path : named, system_reason(error.value()));
}

std::string nearest_existing(const std::string& path) {
  std::error_code ignored;
  fs::path at = fs::absolute(path, ignored).lexically_normal();
  while (!fs::exists(at, ignored) && at.has_relative_path()) at = at.parent_path();
  return at.string();
}

void remove_tree(const std::string& path) noexcept {
  std::error_code error;
  fs::remove_all(path, error);
}

std::string temporary_directory() {
  std::error_code error;
  const fs::path found = fs::temp_directory_path(error);
  return error ? "/tmp" : found.string();
}

std::string join_path(std::string_view directory, std::string_view name) {
  return (fs::path(directory) / fs::path(name)).string();
}

std::string file_name(std::string_view path) { return fs::path(path).filename().string(); }

void refuse_lfs_pointer(std::string_view bytes, const std::string& path) {
  if (bytes.starts_with("version https://git-lfs.github.com/spec/"))
    fail(Status::format, "{}: it is a Git LFS pointer, not the file itself: fetch it with git lfs pull",
         Place::in(path));
}

bool is_plain_path(std::string_view path) {
  for (size_t begin = 0, end = 0; end != path.npos; begin = end + 1) {
    end = path.find('/', begin);
    const std::string_view part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return false;
  }
  return path.find('\0') == path.npos;
}

MappedFile::MappedFile(const std::string& path, bool late) : path_(path) {
  if (is_host_path(path)) {
    host_ = std::make_unique<HostMemory>(path);
    data_ = host_->bytes().data();
    size_ = host_->bytes().size();
    if (!late) host_->need(bytes());
    return;
  }
  const Descriptor descriptor = reading(path_, [&] { return Descriptor(path_, O_NONBLOCK); });
  size_ = descriptor.size();
  device_ = descriptor.device();
  inode_ = descriptor.inode();
  if (size_ == 0) return;
  void* mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, descriptor.get(), 0);
  if (mapped == MAP_FAILED) fail_errno(path, "cannot be mapped");
  data_ = static_cast<const char*>(mapped);
  range_ = add_range(data_, size_);
}

void MappedFile::check() const {
  if (host_ != nullptr) return;  // reading failed at once
  struct stat now {};
  const bool same = ::stat(path_.c_str(), &now) == 0 && now.st_dev == device_ && now.st_ino == inode_;
  if (same && static_cast<size_t>(now.st_size) < size_) {
    fail(Status::io, "{}: the file was cut to {} bytes while its {} bytes are in use", Place::in(path_),
         now.st_size, size_);
  }
  if (range_ != nullptr && is_damaged(*range_))
    fail(Status::io, "{}: a part of the file could not be read while it is in use: was it cut?",
         Place::in(path_));
}

namespace {
// Advises on the whole pages within a part, so that its neighbours are not affected.
void advise(std::string_view part, int advice) noexcept {
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<uintptr_t>(part.data()) + page - 1) / page * page;
  const auto end = (reinterpret_cast<uintptr_t>(part.data()) + part.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, advice);
}
}  // namespace

void MappedFile::need(std::string_view part) {
  if (HostMemory* const host = HostMemory::find(part.data())) host->need(part);
}

void MappedFile::fetch(std::string_view part) {
  if (HostMemory* const host = HostMemory::find(part.data())) return host->need(part);
  advise(part, MADV_WILLNEED);
}

// Other memory would lose its contents.
void MappedFile::drop(std::string_view part) noexcept {
  if (HostMemory* const host = HostMemory::find(part.data())) return host->drop(part);
  if (is_mapped(part.data())) advise(part, MADV_DONTNEED);
}

MappedFile::~MappedFile() {
  if (range_ != nullptr) remove_range(range_);
  if (data_ != nullptr && host_ == nullptr) ::munmap(const_cast<char*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      device_(other.device_),
      inode_(other.inode_),
      range_(std::exchange(other.range_, nullptr)),
      host_(std::move(other.host_)) {}

FileWriter::FileWriter(const std::string& path, const WriteFault* fault, bool append,
                       const std::string& named)
    : path_(path), named_(named.empty() ? path : named), fault_(fault), to_host_(is_host_path(path)) {
  if (to_host_) return;
  descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | (append ? O_APPEND : O_TRUNC) | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail_errno(named_, "cannot be written");
}

FileWriter::~FileWriter() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void FileWriter::write(std::string_view bytes) {
  if (fault_ != nullptr && *fault_) (*fault_)(path_, bytes.size());
  while (!bytes.empty()) {
    // bytes are still in the cache from the hash when they are written
    const std::string_view piece = bytes.substr(0, kAtOnce - waiting_.size());
    ssize_t done = std::ssize(piece);
    if (to_host_) {
      waiting_.append(piece);
    } else {
      done = ::write(descriptor_, piece.data(), piece.size());
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) fail_errno(named_, "cannot be written");
    }
    hash_.update(bytes.substr(0, static_cast<size_t>(done)));
    size_ += static_cast<uint64_t>(done);
    bytes.remove_prefix(static_cast<size_t>(done));
    if (waiting_.size() == kAtOnce) give_to_host();
  }
}

void FileWriter::give_to_host() {
  poll();
  write_host_file(HostWrite::data, path_, given_, waiting_);
  given_ += waiting_.size();
  waiting_.clear();
}

void FileWriter::close() {
  if (to_host_) {
    if (!waiting_.empty() || given_ == 0) give_to_host();  // an empty file has one piece, too
    return;
  }
  if (::fsync(descriptor_) != 0 && errno != EINVAL) fail_errno(named_, "cannot be synced");
  const int descriptor = std::exchange(descriptor_, -1);
  if (::close(descriptor) != 0) fail_errno(named_, "cannot be closed");
}

void write_file(const std::string& path, std::string_view bytes, const WriteFault* fault) {
  FileWriter writer(path, fault);
  writer.write(bytes);
  writer.close();
}

void append_file(const std::string& path, std::string_view bytes) {
  FileWriter(path, nullptr, true).write(bytes);
}

void replace_file(const std::string& path, std::string_view bytes, const WriteFault* fault) {
  replace_file(
      path, [&](FileWriter& writer) { writer.write(bytes); }, fault);
}

void replace_file(const std::string& given, const std::function<void(FileWriter&)>& body,
                  const WriteFault* fault) {
  std::error_code ignored;
  const std::string path = fs::is_symlink(given, ignored) ? fs::weakly_canonical(given).string() : given;
  if (fs::exists(path, ignored) && !fs::is_regular_file(path, ignored))
    fail(Status::io, "{}: not a regular file, so it is not replaced", given);
  const std::string aside = fmt::format("{}.{}.tmp", path, ::getpid());
  try {
    FileWriter writer(aside, fault, false, given);
    body(writer);
    writer.close();
    if (fault != nullptr && *fault) (*fault)(path, 0);
    if (::rename(aside.c_str(), path.c_str()) != 0) fail_errno(given, "cannot be replaced");
  } catch (...) {
    ::unlink(aside.c_str());
    throw;
  }
  const std::string parent = fs::path(path).parent_path().string();
  sync_directory(parent.empty() ? "." : parent);
}

void need_writable_directory(const std::string& path) {
  const std::string there = nearest_existing(path);
  errno = ENOTDIR;
  if (is_directory(there)) errno = try_to_write(there);
  if (errno != 0) fail_errno(there, "cannot be written into");
}

}  // namespace trl::base
