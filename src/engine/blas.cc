#include "engine/blas.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <thread>
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

void need_blas_buffers() {
  constexpr size_t kBuffer = size_t{128} << 20;
  const long threads = blas_threads();
  std::vector<void*> buffers;
  buffers.reserve(static_cast<size_t>(threads));
  bool fit = true;
  for (long i = 0; fit && i < threads; ++i) {
    void* const buffer = ::mmap(nullptr, kBuffer, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fit = buffer != MAP_FAILED;
    if (fit) buffers.push_back(buffer);
  }
  for (void* const buffer : buffers) ::munmap(buffer, kBuffer);
  if (!fit)
    fail(Status::out_of_memory,
         "no address space for OpenBLAS, which takes {} MB for each of its {} threads: raise the limit of "
         "this "
         "process (ulimit -v), or set OPENBLAS_NUM_THREADS",
         kBuffer >> 20, threads);
}

}  // namespace trl::engine
