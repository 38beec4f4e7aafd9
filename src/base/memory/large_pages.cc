#include "base/memory/large_pages.h"

#include <sys/mman.h>

#include <cstdint>

namespace trl::base {

void want_large_pages(void* memory, size_t bytes) noexcept {
  constexpr uintptr_t kLarge = 2 << 20;
  const auto begin = (reinterpret_cast<uintptr_t>(memory) + kLarge - 1) / kLarge * kLarge;
  const auto end = (reinterpret_cast<uintptr_t>(memory) + bytes) / kLarge * kLarge;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

std::unique_ptr<char[]> large_memory(size_t bytes) {
  auto memory = std::make_unique_for_overwrite<char[]>(bytes);
  want_large_pages(memory.get(), bytes);
  return memory;
}

}  // namespace trl::base
