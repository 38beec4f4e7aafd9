// Reading a mapped file past its end, after another process has cut it, raises SIGBUS, which ends a process
// that has no handler. While a MappedReads lives and a file is mapped, such a fault reads zeros instead and
// marks the file, and its user asks MappedFile::check(). All other faults are passed to the previous handler,
// which is restored when the last MappedReads is destroyed.
#pragma once
#include <signal.h>

#include <cstddef>

namespace trl::base {

class MappedReads {
 public:
  MappedReads() noexcept;  // any thread; while it lives, SIGBUS is not blocked on this one
  ~MappedReads();
  MappedReads(const MappedReads&) = delete;
  MappedReads& operator=(const MappedReads&) = delete;

 private:
  sigset_t before_;
};

// A part of memory that a file is mapped to.
struct MappedRange;
MappedRange* add_range(const char* begin, size_t size, bool writable = false);
bool is_mapped(const char* at) noexcept;             // an address in a range, which is not writable
bool is_damaged(const MappedRange& range) noexcept;  // a read of it has failed
void remove_range(MappedRange* range) noexcept;      // call before it is unmapped

}  // namespace trl::base
