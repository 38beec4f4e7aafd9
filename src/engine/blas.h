// The OpenBLAS that libtorch uses, and the memory that it must find: it maps a buffer for each thread that
// computes with it, and where there is no room it tries for ever.
#pragma once
#include <pthread.h>
#include <sys/mman.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace trl::engine {

inline constexpr size_t kBlasBuffer = size_t{128} << 20;  // BUFFER_SIZE of its builds for 64-bit processors

// Returns the file's name of the OpenBLAS that is beside an engine, as a bundle has it under a name of its
// own (src/bundle), or the system's.
inline std::string blas_beside(const std::string& engine_path) {
  constexpr std::string_view kSystems = "libopenblas.so.0", kStem = kSystems.substr(3);
  std::error_code error;
  std::filesystem::directory_iterator file(std::filesystem::path(engine_path).parent_path(), error), end;
  for (; !error && file != end; file.increment(error))
    if (std::string name = file->path().filename(); name.ends_with(kStem)) return name;
  return std::string(kSystems);
}

// Returns the bytes that the stack of a new thread takes, with its guard.
inline size_t stack_bytes() {
  size_t stack = size_t{8} << 20, guard = 4096;
  pthread_attr_t attributes;
  if (pthread_getattr_default_np(&attributes) == 0) {
    pthread_attr_getstacksize(&attributes, &stack);
    pthread_attr_getguardsize(&attributes, &guard);
    pthread_attr_destroy(&attributes);
  }
  return stack + guard;
}

struct MappedBlock {
  size_t bytes;
  bool writable;  // the system counts it as memory; else as addresses alone
};

// Returns whether this process could map all these blocks now.
inline bool could_map(const std::vector<MappedBlock>& blocks) {
  std::vector<std::pair<void*, size_t>> mapped;
  mapped.reserve(blocks.size());
  for (const MappedBlock& block : blocks) {
    const int protection = block.writable ? PROT_READ | PROT_WRITE : PROT_NONE;
    void* const begin = ::mmap(nullptr, block.bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (begin == MAP_FAILED) break;
    mapped.emplace_back(begin, block.bytes);
  }
  for (const auto& [begin, bytes] : mapped) ::munmap(begin, bytes);
  return mapped.size() == blocks.size();
}

// Throws Error(out_of_memory) if this process has no address space for the libraries that the engine loads:
// libraries are the sizes of their files in memory. An exception of a library that initialises itself would
// end the process.
void need_address_space(const std::vector<size_t>& libraries, bool loads_blas);

}  // namespace trl::engine
