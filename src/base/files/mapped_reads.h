// Reading a mapped file past its end, after another process has cut it, raises SIGBUS, which ends a process
// that has no handler. While a MappedReads lives and a file is mapped, such a fault reads zeros instead and
// marks the file, and whoever uses it asks MappedFile::check(). All other faults go to the handler that was
// there before; when the last MappedReads goes, that one is back.
#pragma once
#include <signal.h>

#include <cstddef>

namespace trl::base {

class MappedReads {
 public:
  MappedReads() noexcept;  // any thread; until it goes, SIGBUS is not blocked on this one
  ~MappedReads();
  MappedReads(const MappedReads&) = delete;
  MappedReads& operator=(const MappedReads&) = delete;

 private:
  sigset_t before_;
};

// A part of memory that a file is mapped to.
struct MappedRange;
MappedRange* add_range(const char* begin, size_t size, bool writable = false);
bool is_damaged(const MappedRange& range) noexcept;  // a read of it has failed
void remove_range(MappedRange* range) noexcept;      // before it is unmapped

}  // namespace trl::base
