// A file: a header, the states as they are or as one zstd frame, and the XXH3 of both.
#include "memory/paged_memory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>
#include <zstd.h>
#include <algorithm>
#include <chrono>
#include <ctime>
#include <map>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "base/files/files.h"
#include "base/text/number.h"
#include "tensor/memory/rehearsal.h"
#include "tensor/process_state.h"

namespace trl::memory {

namespace {

// Opens an unnamed file; on a file system without these, a named file that is unlinked at once.
int open_in(const std::string& directory) {
  const int file = ::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return file;
  std::string name = base::join_path(directory, ".trl-XXXXXX");
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(name.c_str());
  return named;
}

void check_is_on_disk(const std::string& directory) {
  struct statfs info {};
  if (::statfs(directory.c_str(), &info) != 0) return;
  const auto type = static_cast<uint64_t>(info.f_type);
  if (type != TMPFS_MAGIC && type != RAMFS_MAGIC) return;
  fail_key("offload_dir",
           "offload_dir: {} is on a {}, whose files are kept in memory, so moving data there frees none: "
           "name a directory on a disk",
           directory, type == TMPFS_MAGIC ? "tmpfs" : "ramfs");
}

int opened(const std::string& directory) {
  check_is_on_disk(directory);
  const int file = open_in(directory);
  if (file < 0) base::fail_errno(directory, "no file can be created in it for what leaves memory");
  return file;
}

constexpr uint64_t kMagic = 0x3173657461747374;  // "tstates1"
constexpr std::string_view kAside = ".tmp";
constexpr int64_t kAbandonedSeconds = 24 * 60 * 60;  // a temporary file this old has no writer any more

struct Header {
  uint64_t magic, raw, stored;
};
static_assert(sizeof(Header) == 24);

std::string_view bytes_of(const auto& value) { return {reinterpret_cast<const char*>(&value), sizeof value}; }

// Returns the compressed bytes; empty: they would not be smaller.
std::string compressed(std::string_view raw) {
  std::string out(ZSTD_compressBound(raw.size()), '\0');
  const size_t size = ZSTD_compress(out.data(), out.size(), raw.data(), raw.size(), 1);
  out.resize(ZSTD_isError(size) != 0u || size >= raw.size() ? 0 : size);
  return out;
}

// Writes a temporary file and renames it, without a sync: after a power cut the checksum shows the damage.
void place_file(const std::string& path, const base::WriteFault* fault,
                const std::function<void(base::FileWriter&)>& body) {
  static std::atomic<uint64_t> number{0};  // two trainers of a process may write the same file
  const std::string aside = fmt::format("{}.{}-{}{}", path, ::getpid(), number++, kAside);
  try {
    {
      base::FileWriter writer(aside, fault);
      body(writer);
    }
    if (fault != nullptr && *fault) (*fault)(path, 0);
    if (::rename(aside.c_str(), path.c_str()) != 0) base::fail_errno(path, "cannot be replaced");
  } catch (...) {
    ::unlink(aside.c_str());
    throw;
  }
}

// The defect of the file; empty: none.
std::string_view unpack(std::string_view file, std::span<char> states) {
  Header header{};
  uint64_t sum = 0;
  if (file.size() < sizeof header + sizeof sum) return "it ends early";
  std::memcpy(&header, file.data(), sizeof header);
  if (header.magic != kMagic) return "it does not begin with the expected bytes";
  if (header.stored != file.size() - sizeof header - sizeof sum)
    return "its length is not the one in its header";
  std::memcpy(&sum, file.data() + file.size() - sizeof sum, sizeof sum);
  if (sum != base::xxh3_64(file.substr(0, file.size() - sizeof sum))) return "its checksum is wrong";
  if (header.raw != states.size()) return "it holds states of another size";
  const char* const from = file.data() + sizeof header;
  if (header.stored == header.raw)
    std::memcpy(states.data(), from, states.size());
  else if (ZSTD_decompress(states.data(), states.size(), from, header.stored) != states.size())
    return "it cannot be decompressed";
  return {};
}

}  // namespace

PagedMemory::PagedMemory(const std::string& directory, int64_t bytes, const std::string& what)
    : bytes_(bytes) {
  const bool rehearsed = tensor::Rehearsal::current() != nullptr;
  if (rehearsed) UnnamedFile::check(directory);
  if (!rehearsed) file_.emplace(directory);
  if (bytes == 0) return;
  if (file_) file_->reserve(bytes, what);
  const int flags = file_ ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void* const place = ::mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, flags,
                             file_ ? file_->descriptor() : -1, 0);
  if (place == MAP_FAILED) base::fail_errno(directory, "a file in it cannot be mapped");
  data_ = static_cast<char*>(place);
  if (file_) range_ = base::add_range(data_, static_cast<size_t>(bytes), true);
}

PagedMemory::~PagedMemory() {
  if (data_ == nullptr) return;
  if (range_ != nullptr) base::remove_range(range_);
  ::munmap(data_, static_cast<size_t>(bytes_));
}

void PagedMemory::release(const void* begin, int64_t bytes) const noexcept {
  if (data_ == nullptr || !file_) return;
  static const int64_t page = ::sysconf(_SC_PAGESIZE);
  const int64_t first = (static_cast<const char*>(begin) - data_) / page * page;
  const int64_t last = static_cast<const char*>(begin) - data_ + bytes;
  // Changes stay in the file.
  ::madvise(data_ + first, static_cast<size_t>(last - first), MADV_DONTNEED);
  ::sync_file_range(file_->descriptor(), first, last - first, SYNC_FILE_RANGE_WRITE);
}

void PagedMemory::check() const {
  if (range_ == nullptr || !base::is_damaged(*range_)) return;
  fail(Status::io, "{}: a part of what left memory could not be read from the disk", file_->directory());
}

UnnamedFile::UnnamedFile(const std::string& directory)
    : directory_(base::nearest_existing(directory)), descriptor_(opened(directory_)) {}

void UnnamedFile::check(const std::string& directory) { check_is_on_disk(base::nearest_existing(directory)); }

UnnamedFile::~UnnamedFile() { ::close(descriptor_); }

int64_t UnnamedFile::free_bytes() const {
  struct statvfs info {};
  if (::fstatvfs(descriptor_, &info) != 0) base::fail_errno(directory_, "its free space cannot be read");
  return static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_frsize);
}

void UnnamedFile::reserve(int64_t bytes, const std::string& what) const {
  const int64_t free = free_bytes();
  const int error = free < bytes ? ENOSPC : ::posix_fallocate(descriptor_, 0, bytes);
  if (error == 0) return;
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    throw Error(Status::io,
                fmt::format("offload_dir: {}: {} need {} of disk, and {} are free; make room, or name a "
                            "directory on another disk",
                            directory_, what, base::bytes_text(bytes), base::bytes_text(free)),
                "offload_dir");
  }
  errno = error;
  base::fail_errno(directory_, "no room can be taken on the disk");
}

namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kPiece = int64_t{4} << 20, kPieces = 16;
constexpr double kSeconds = 0.17;  // for writing, and for reading

// Calls body(offset) for one piece after the other while there is time; returns bytes per second, including
// the time of end().
template <typename Body, typename End>
double bytes_per_second(int64_t pieces, int64_t& done, const Body& body, const End& end) {
  const auto begin = Clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  for (done = 0; done < pieces && (done == 0 || seconds() < kSeconds); ++done) body(done * kPiece);
  end();
  return static_cast<double>(done * kPiece) / std::max(seconds(), 1e-6);
}

DiskSpeed measure(const std::string& directory) {
  const UnnamedFile file(directory);
  std::vector<char> piece(static_cast<size_t>(kPiece));
  for (size_t i = 0; i < piece.size(); ++i) piece[i] = static_cast<char>(i * 2654435761U >> 13);
  const auto check = [&](ssize_t got, const char* what) {
    if (got < 0) base::fail_errno(file.directory(), what);
  };
  int64_t written = 0, read = 0;
  DiskSpeed speed;
  speed.write = bytes_per_second(
      kPieces, written,
      [&](int64_t offset) {
        check(::pwrite(file.descriptor(), piece.data(), piece.size(), offset), "it cannot be written");
      },
      [&] { ::fdatasync(file.descriptor()); });
  ::posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_DONTNEED);
  speed.read = bytes_per_second(
      written, read,
      [&](int64_t offset) {
        check(::pread(file.descriptor(), piece.data(), piece.size(), offset), "it cannot be read");
      },
      [] {});
  return speed;
}

struct Known {
  std::mutex mutex;
  std::map<std::string, DiskSpeed> speeds;
};

}  // namespace

DiskSpeed disk_speed(const std::string& directory) {
  auto& known = tensor::process_state<Known>();
  const std::lock_guard lock(known.mutex);
  const auto found = known.speeds.find(directory);
  return found != known.speeds.end() ? found->second : known.speeds[directory] = measure(directory);
}

StateFiles::StateFiles(Options options, const base::Json& about)
    : options_(std::move(options)), about_(about.dump(2) + "\n") {
  check_owner(about);
}

void StateFiles::check_owner(const base::Json& about) const {
  if (!base::file_exists(file_of_owner())) return;
  const base::Json there = base::read_json_file(file_of_owner());
  const auto text = [](const base::Json& json, const std::string& name) {
    const base::Json value = json.is_object() ? json.value(name, base::Json()) : base::Json();
    return value.is_string() ? value.get<std::string>() : value.dump();
  };
  for (const auto& [name, value] : about.items()) {
    if (name == "model" || text(there, name) == text(about, name)) continue;
    fail_key("cache_frozen_layers",
             "cache_frozen_layers: {} holds states of {} with {}: {}, and those of this run ({}) have {}: "
             "{}; give another directory, or remove that one",
             options_.directory, text(there, "model"), name, text(there, name), text(about, "model"), name,
             text(about, name));
  }
}

std::string StateFiles::path(const std::string& key) const {
  return base::join_path(base::join_path(options_.directory, key.substr(0, 2)), key.substr(2) + ".states");
}

bool StateFiles::has(const std::string& key) const { return base::file_exists(path(key)); }

bool StateFiles::read(const std::string& key, std::span<char> states) const {
  const std::string file = path(key);
  std::string why;
  try {
    why = unpack(base::read_file(file), states);
    if (why.empty()) return true;
    why = fmt::format("{}: damaged: {}", file, why);
  } catch (const Error& error) {
    if (error.status() == Status::not_found) return false;
    why = error.message();
  }
  if (options_.log != nullptr)
    options_.log->warning("cache", "cache_frozen_layers: {}; its states are computed anew", why);
  return false;
}

void StateFiles::write(const std::string& key, std::string_view states) {
  if (failed_) return;
  try {
    std::call_once(begun_, [&] { begin(); });
    const std::string packed = options_.zstd ? compressed(states) : std::string();
    const std::string_view stored = packed.empty() ? states : packed;
    const Header header{kMagic, states.size(), stored.size()};
    const std::string file = path(key);
    base::make_directories(base::join_path(options_.directory, key.substr(0, 2)));
    place_file(file, options_.write_fault, [&](base::FileWriter& out) {
      out.write(bytes_of(header));
      out.write(stored);
      out.write(bytes_of(out.xxh3()));
    });
  } catch (const Error& error) {
    if (failed_.exchange(true) || options_.log == nullptr) return;
    options_.log->warning("cache",
                          "cache_frozen_layers: {}; nothing more is kept, and the run continues without it",
                          error.message());
  }
}

void StateFiles::begin() {
  base::make_directories(options_.directory);
  clear();
  if (!base::file_exists(file_of_owner())) base::replace_file(file_of_owner(), about_, options_.write_fault);
}

// Removes temporary files that killed runs left behind.
void StateFiles::clear() const {
  const int64_t now = ::time(nullptr);
  for (const std::string& folder : base::list_directory(options_.directory)) {
    const std::string inside = base::join_path(options_.directory, folder);
    if (folder.size() != 2 || !base::is_directory(inside)) continue;
    for (const std::string& name : base::list_directory(inside)) {
      const std::string file = base::join_path(inside, name);
      struct stat info {};
      if (name.ends_with(kAside) && ::stat(file.c_str(), &info) == 0 &&
          now - info.st_mtime > kAbandonedSeconds)
        ::unlink(file.c_str());
    }
  }
}

}  // namespace trl::memory
