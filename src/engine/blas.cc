#include "engine/blas.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.h"

extern "C" char** environ;

namespace trl::engine {

namespace {

// Returns a number of the environment, which OpenBLAS reads too; 0: none.
long number_of_environment(std::string_view name) {
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view line = *entry;
    if (line.size() > name.size() && line.starts_with(name) && line[name.size()] == '=')
      return std::strtol(*entry + name.size() + 1, nullptr, 10);
  }
  return 0;
}

long blas_threads() {
  const long processors = std::max(1U, std::thread::hardware_concurrency());
  for (const char* const name : {"OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS"})
    if (const long wanted = number_of_environment(name); wanted > 0) return std::min(wanted, processors);
  return processors;
}

}  // namespace

void need_address_space(bool bundled) {
  constexpr size_t kMegabyte = size_t{1} << 20;
  constexpr size_t kBuffer = 128 * kMegabyte, kStack = 16 * kMegabyte, kInitialised = 128 * kMegabyte;
  const size_t files = (bundled ? 256 : 640) * kMegabyte;  // what they map is less
  const long threads = blas_threads();
  std::vector<size_t> sizes(static_cast<size_t>(threads), kBuffer + kStack);
  sizes.push_back(kInitialised);
  size_t total = files;
  for (const size_t size : sizes) total += size;
  std::vector<std::pair<void*, size_t>> mapped;
  mapped.reserve(sizes.size() + 1);
  const auto map = [&](size_t size, int protection) {
    void* const block = ::mmap(nullptr, size, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) return false;
    mapped.emplace_back(block, size);
    return true;
  };
  const bool fits = map(files, PROT_NONE) && std::ranges::all_of(sizes, [&](size_t size) {
                      return map(size, PROT_READ | PROT_WRITE);
                    });
  for (const auto& [block, size] : mapped) ::munmap(block, size);
  if (!fits)
    fail(Status::out_of_memory,
         "no address space for the engine's libraries: {} MB, of which OpenBLAS takes {} MB for each of its "
         "{} "
         "threads; raise the limit of this process (ulimit -v), or set OPENBLAS_NUM_THREADS",
         total / kMegabyte, kBuffer / kMegabyte, threads);
}

}  // namespace trl::engine
