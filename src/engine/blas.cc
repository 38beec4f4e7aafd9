#include "engine/blas.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <thread>

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

void need_address_space(const std::vector<size_t>& libraries, bool loads_blas) {
  constexpr size_t kMegabyte = size_t{1} << 20;
  // The initialisers of Debian's 287 libraries allocate 47 MB.
  constexpr size_t kInitialised = 64 * kMegabyte;
  // OpenBLAS starts all its threads but the first as it is loaded.
  const long started = loads_blas ? blas_threads() - 1 : 0;
  std::vector<MappedBlock> blocks;
  for (const size_t bytes : libraries) blocks.push_back({bytes, false});
  for (long i = 0; i < started; ++i) {
    blocks.push_back({stack_bytes(), true});
    blocks.push_back({kBlasBuffer, true});
  }
  blocks.push_back({kInitialised, true});
  if (could_map(blocks)) return;
  size_t total = 0;
  for (const MappedBlock& block : blocks) total += block.bytes;
  fail(Status::out_of_memory,
       "no address space for the engine's libraries: {} MB, of which OpenBLAS takes {} MB for each of {} "
       "threads; raise the limit of this process (ulimit -v), or set OPENBLAS_NUM_THREADS",
       total / kMegabyte, (kBlasBuffer + stack_bytes()) / kMegabyte, started);
}

}  // namespace trl::engine
