#include "scarce_memory.h"

#include <atomic>
#include <cstdlib>
#include <new>
#include <utility>

namespace trl::serve::test {

namespace {

constinit std::atomic<int64_t> left{0};  // allocations until the one that fails, 0: none does
constinit thread_local bool is_servers = false;
constinit thread_local int plenty = 0;

bool fails() noexcept { return is_servers && plenty == 0 && left.load() > 0 && left.fetch_sub(1) == 1; }

void* allocate(std::size_t size) {
  void* const memory = fails() ? nullptr : std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void* allocate(std::size_t size, std::align_val_t alignment) {
  const auto bytes = static_cast<std::size_t>(alignment);
  void* const memory = fails() ? nullptr : std::aligned_alloc(bytes, (size + bytes - 1) / bytes * bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void be_a_thread_of_the_server() noexcept { is_servers = true; }
void fail_allocation(int64_t number) noexcept { left = number; }
bool has_failed() noexcept { return left.load() <= 0; }

Plenty::Plenty() noexcept { ++plenty; }
Plenty::~Plenty() { --plenty; }
Scarce::Scarce() noexcept : before_(std::exchange(plenty, 0)) {}
Scarce::~Scarce() { plenty = before_; }

}  // namespace trl::serve::test

using trl::serve::test::allocate;

void* operator new(std::size_t size) { return allocate(size); }
void* operator new[](std::size_t size) { return allocate(size); }
void* operator new(std::size_t size, std::align_val_t alignment) { return allocate(size, alignment); }
void* operator new[](std::size_t size, std::align_val_t alignment) { return allocate(size, alignment); }
// The ones that do not throw are those of a sanitizer otherwise, which does not know what std::free gets
// then.
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return trl::serve::test::fails() ? nullptr : std::malloc(size == 0 ? 1 : size);
}
void* operator new[](std::size_t size, const std::nothrow_t& none) noexcept {
  return operator new(size, none);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }
