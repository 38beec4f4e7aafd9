#include "memory/offload_file.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"

namespace trl::memory {

namespace {

constexpr int64_t kBlock = 4096;
constexpr int64_t kCached = int64_t{16} << 20;  // bytes that may be waiting for the disk

int64_t in_blocks(int64_t bytes) { return (bytes + kBlock - 1) / kBlock * kBlock; }

}  // namespace

OffloadFile::OffloadFile(const std::string& directory, const base::WriteFault* fault)
    : file_(directory), fault_(fault) {}

OffloadFile::Extent OffloadFile::write(std::span<const char> bytes) {
  const Extent extent = take(static_cast<int64_t>(bytes.size()));
  try {
    if (fault_ != nullptr && *fault_) (*fault_)(directory(), bytes.size());
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t got = ::pwrite(file_.descriptor(), bytes.data() + done, bytes.size() - done,
                                   static_cast<off_t>(extent.offset + static_cast<int64_t>(done)));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == ENOSPC) {
        fail(Status::io,
             "{}: the disk is full: {} more bytes must leave memory, {} already have, and {} are free",
             directory(), bytes.size(), used() - in_blocks(extent.bytes), free_bytes());
      }
      if (got < 0) base::fail_errno(directory(), "what leaves memory cannot be written");
      done += static_cast<size_t>(got);
    }
  } catch (...) {
    free(extent);
    throw;
  }
  write_back(extent);
  return extent;
}

// Starts writing to the disk at once. Pages written a while ago are on the disk by now and leave the cache.
void OffloadFile::write_back(const Extent& extent) {
  ::sync_file_range(file_.descriptor(), extent.offset, extent.bytes, SYNC_FILE_RANGE_WRITE);
  const std::lock_guard lock(mutex_);
  written_.push_back(extent);
  written_bytes_ += extent.bytes;
  while (written_bytes_ > kCached) {
    const Extent& oldest = written_.front();
    ::posix_fadvise(file_.descriptor(), oldest.offset, oldest.bytes, POSIX_FADV_DONTNEED);
    written_bytes_ -= oldest.bytes;
    written_.pop_front();
  }
}

void OffloadFile::read(const Extent& extent, char* to) {
  for (int64_t done = 0; done < extent.bytes;) {
    const ssize_t got = ::pread(file_.descriptor(), to + done, static_cast<size_t>(extent.bytes - done),
                                static_cast<off_t>(extent.offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) base::fail_errno(directory(), "what left memory cannot be read");
    if (got == 0) fail(Status::io, "{}: the file of what left memory ends early", directory());
    done += got;
  }
  ::posix_fadvise(file_.descriptor(), extent.offset, extent.bytes, POSIX_FADV_DONTNEED);
}

OffloadFile::Extent OffloadFile::take(int64_t bytes) {
  const int64_t room = in_blocks(bytes);
  const std::lock_guard lock(mutex_);
  for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap) {
    if (gap->second < room) continue;
    const Extent extent{gap->first, bytes};
    const int64_t rest = gap->second - room;
    if (rest > 0) gaps_.emplace(extent.offset + room, rest);
    gaps_.erase(gap);
    used_ += room;
    return extent;
  }
  const Extent extent{end_, bytes};
  end_ += room;
  used_ += room;
  return extent;
}

void OffloadFile::free(const Extent& extent) noexcept {
  const std::lock_guard lock(mutex_);
  int64_t offset = extent.offset, bytes = in_blocks(extent.bytes);
  used_ -= bytes;
  auto after = gaps_.upper_bound(offset);
  if (after != gaps_.end() && after->first == offset + bytes) {
    bytes += after->second;
    after = gaps_.erase(after);
  }
  if (after != gaps_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second == offset) {
      offset = before->first;
      bytes += before->second;
      gaps_.erase(before);
    }
  }
  try {
    gaps_.emplace(offset, bytes);
  } catch (const std::bad_alloc&) {  // its space is not reused
  }
}

int64_t OffloadFile::size() const {
  const std::lock_guard lock(mutex_);
  return end_;
}

int64_t OffloadFile::used() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

}  // namespace trl::memory
