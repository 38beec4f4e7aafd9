// Memory for many bytes that are written once. Taking a small page from the system costs several times as
// much as filling it; a large one costs less than filling it.
#pragma once
#include <cstddef>
#include <memory>

namespace trl::base {

// Has the system give large pages for memory that is not touched yet, if it has any.
void want_large_pages(void* memory, size_t bytes) noexcept;

// Returns memory that is not initialised. Throws std::bad_alloc.
std::unique_ptr<char[]> large_memory(size_t bytes);

}  // namespace trl::base
