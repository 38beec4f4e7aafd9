// operator new that fails where a test says so; for one file of a test program.
#pragma once
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace trl::test {

// While one lives, nothing is allocated on its thread.
class NoMemory {
 public:
  NoMemory() { refused = true; }
  ~NoMemory() { refused = false; }
  NoMemory(const NoMemory&) = delete;
  NoMemory& operator=(const NoMemory&) = delete;
  static inline constinit thread_local bool refused = false;
};

// While one lives, no thread gets memory of exactly this size.
class NoMemoryOf {
 public:
  explicit NoMemoryOf(std::size_t size) { refused = size; }
  ~NoMemoryOf() { refused = 0; }
  NoMemoryOf(const NoMemoryOf&) = delete;
  NoMemoryOf& operator=(const NoMemoryOf&) = delete;
  static inline constinit std::atomic<std::size_t> refused{0};
};

// While one lives, the nth allocation of the process gets no memory, on whichever thread it comes.
class NoMemoryAt {
 public:
  explicit NoMemoryAt(int64_t n) {
    refused = false;
    left = n;
  }
  ~NoMemoryAt() { left = 0; }
  NoMemoryAt(const NoMemoryAt&) = delete;
  NoMemoryAt& operator=(const NoMemoryAt&) = delete;
  static bool refuses() noexcept {
    if (left.load() <= 0 || left.fetch_sub(1) != 1) return false;
    refused = true;
    return true;
  }
  static inline constinit std::atomic<int64_t> left{0};
  static inline constinit std::atomic<bool> refused{false};  // since the last one was made
};

// What operator new gave and operator delete has not got back.
inline constinit std::atomic<int64_t> live_allocations{0};

}  // namespace trl::test

// Not inlined: gcc would take malloc and free of one side alone for a mismatch.
#define TRL_OUT_OF_LINE __attribute__((noinline))
TRL_OUT_OF_LINE void* operator new(std::size_t size) {
  const bool refused = trl::test::NoMemory::refused ||
                       (size > 0 && size == trl::test::NoMemoryOf::refused.load()) ||
                       trl::test::NoMemoryAt::refuses();
  void* const memory = refused ? nullptr : std::malloc(size > 0 ? size : 1);
  if (memory == nullptr) throw std::bad_alloc();
  ++trl::test::live_allocations;
  return memory;
}
TRL_OUT_OF_LINE void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  try {
    return operator new(size);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
TRL_OUT_OF_LINE void operator delete(void* memory) noexcept {
  if (memory != nullptr) --trl::test::live_allocations;
  std::free(memory);
}
TRL_OUT_OF_LINE void operator delete(void* memory, std::size_t) noexcept { operator delete(memory); }
#undef TRL_OUT_OF_LINE
