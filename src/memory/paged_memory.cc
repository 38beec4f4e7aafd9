#include "memory/paged_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "base/files/files.h"
#include "tensor/memory/rehearsal.h"

namespace trl::memory {

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

}  // namespace trl::memory
