#include "base/files/host_files.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/files/files.h"
#include "base/interrupt.h"

namespace trl::base {

namespace {

constexpr size_t kPiece = size_t{16} << 20;  // read between two polls

std::atomic<HostFiles*> host_files{nullptr};

HostFiles& files_for(const std::string& path) {
  HostFiles* const files = host_files.load();
  if (files == nullptr)
    fail(Status::not_found, "{}: no files are mounted in this process (trl_runtime_mount)", Place::in(path));
  return *files;
}

int64_t value_of(const HostFiles::Answer& answer) {
  if (answer.error) throw Error(*answer.error);
  return answer.value;
}

[[noreturn]] void fail_absent(const std::string& path) {
  fail(Status::not_found, "{}: there is no such file", Place::in(path));
}

struct Memories {
  std::mutex mutex;
  std::vector<HostMemory*> all;
  std::atomic<size_t> count{0};
};
Memories& memories() {
  static Memories* const only = new Memories;
  return *only;
}

}  // namespace

std::string absolute_path(const std::string& path) {
  return is_host_path(path) ? path : std::filesystem::absolute(path).string();
}

void set_host_files(HostFiles* files) noexcept { host_files = files; }

std::optional<uint64_t> host_file_size(const std::string& path) {
  const int64_t size = value_of(files_for(path).size(path));
  return size < 0 ? std::nullopt : std::optional(static_cast<uint64_t>(size));
}

uint64_t need_host_file(const std::string& path) {
  const std::optional<uint64_t> size = host_file_size(path);
  if (!size) fail_absent(path);
  return *size;
}

void read_host_file(const std::string& path, uint64_t offset, char* buffer, size_t size) {
  for (size_t done = 0; done < size;) {
    poll();
    const size_t wanted = std::min(kPiece, size - done);
    const int64_t got = value_of(files_for(path).read(path, offset + done, buffer + done, wanted));
    if (got < 0) fail_absent(path);
    if (got == 0)
      fail(Status::io, "{}: the host's file ends at byte {}, and it said that there are {} and more",
           Place::in(path), offset + done, offset + size);
    done += static_cast<size_t>(got);
  }
}

void write_host_file(HostWrite what, const std::string& path, uint64_t offset, std::string_view data) {
  value_of(files_for(path).write(what, path, offset, data));
}

void drop_host_folder(const std::string& path) noexcept {
  if (HostFiles* const files = host_files.load()) files->write(HostWrite::dropped, path, 0, {});
}

HostMemory::HostMemory(const std::string& path) : path_(path) {
  const uint64_t size = need_host_file(path);
  if (size > static_cast<uint64_t>(PTRDIFF_MAX) / 2)
    fail(Status::io, "{}: the host says that it has {} bytes, more than can be addressed", Place::in(path),
         size);
  size_ = static_cast<size_t>(size);
  if (size_ > 0) {
    void* const place =
        ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED)
      fail(Status::out_of_memory, "{}: no memory for its {} bytes: {}", Place::in(path), size_,
           system_reason(errno));
    data_ = static_cast<char*>(place);
  }
  Memories& known = memories();
  const std::lock_guard lock(known.mutex);
  known.all.push_back(this);
  known.count = known.all.size();
}

HostMemory::~HostMemory() {
  {
    Memories& known = memories();
    const std::lock_guard lock(known.mutex);
    std::erase(known.all, this);
    known.count = known.all.size();
  }
  drop(bytes());
  if (data_ != nullptr) ::munmap(data_, size_);
}

HostMemory* HostMemory::find(const char* at) noexcept {
  Memories& known = memories();
  if (known.count == 0) return nullptr;
  const std::lock_guard lock(known.mutex);
  const auto found = std::ranges::find_if(
      known.all, [&](const HostMemory* one) { return at >= one->data_ && at < one->data_ + one->size_; });
  return found == known.all.end() ? nullptr : *found;
}

HostMemory::Ranges HostMemory::missing(size_t begin, size_t end) const {
  Ranges gaps;
  auto at = here_.upper_bound(begin);
  if (at != here_.begin()) begin = std::max(begin, std::prev(at)->second);
  for (; begin < end; ++at) {
    const size_t next = at == here_.end() ? end : std::min(end, at->first);
    if (begin < next) gaps.emplace(begin, next);
    if (at == here_.end()) break;
    begin = std::max(begin, at->second);
  }
  return gaps;
}

void HostMemory::need(std::string_view part) {
  const auto begin = static_cast<size_t>(part.data() - data_);
  Ranges gaps;
  {
    const std::lock_guard lock(mutex_);
    gaps = missing(begin, std::min(size_, begin + part.size()));
  }
  for (const auto& [from, to] : gaps) read(from, to);
}

void HostMemory::read(size_t begin, size_t end) {
  HostFiles& files = files_for(path_);
  const auto bytes = static_cast<int64_t>(end - begin);
  value_of(files.charge(path_, bytes));
  try {
    read_host_file(path_, begin, data_ + begin, end - begin);
    const std::lock_guard lock(mutex_);
    auto next = here_.upper_bound(begin);
    if (next != here_.begin() && std::prev(next)->second == begin) {
      begin = std::prev(next)->first;
      here_.erase(std::prev(next));
    }
    if (next != here_.end() && next->first == end) {
      end = next->second;
      here_.erase(next);
    }
    here_.emplace(begin, end);
  } catch (...) {
    files.release(bytes);
    throw;
  }
}

void HostMemory::drop(std::string_view part) noexcept {
  if (part.empty()) return;
  const auto begin = static_cast<size_t>(part.data() - data_), end = std::min(size_, begin + part.size());
  const std::lock_guard lock(mutex_);
  size_t bytes = 0;
  auto at = here_.upper_bound(begin);
  if (at != here_.begin()) --at;
  while (at != here_.end() && at->first < end) {
    const auto [from, to] = *at;
    const size_t first = std::max(from, begin), last = std::min(to, end);
    if (first >= last) {
      ++at;
      continue;
    }
    bytes += last - first;
    at = here_.erase(at);
    if (from < first) here_.emplace(from, first);
    if (last < to) here_.emplace(last, to);
  }
  if (bytes == 0) return;
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const size_t from = (begin + page - 1) / page * page, to = end == size_ ? end : end / page * page;
  if (from < to) ::madvise(data_ + from, to - from, MADV_DONTNEED);
  if (HostFiles* const files = host_files.load()) files->release(static_cast<int64_t>(bytes));
}

}  // namespace trl::base
