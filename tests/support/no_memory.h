// operator new that fails where a test says so; for one file of a test program.
#pragma once
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

}  // namespace trl::test

void* operator new(std::size_t size) {
  void* const memory = trl::test::NoMemory::refused ? nullptr : std::malloc(size > 0 ? size : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
