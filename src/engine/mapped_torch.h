// Finds the libtorch that this process has mapped, and compares it with the engine's. Two of them under the
// same names crash (docs: one libtorch per process), so this is checked before the engine is opened. The
// libtorch of a bundle has names of its own, and any other may be beside it.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace trl::engine {

// The needs that a shared library declares to the dynamic linker, read from its file without loading it.
struct ElfNeeds {
  std::vector<std::string> libraries;    // DT_NEEDED
  std::vector<std::string> directories;  // DT_RUNPATH or DT_RPATH, $ORIGIN resolved
  size_t mapped = 0;                     // bytes of addresses that it takes once it is loaded
};

// Throws Error(format) if the file is not an ELF library of this machine's word size, or its sizes are false.
ElfNeeds read_elf_needs(const std::string& path);

// Returns the paths of the loaded libraries that are wanted.
std::vector<std::string> mapped_libraries(bool (*wanted)(std::string_view path));

// Returns whether the process has a library of this name, or of this path, loaded.
bool is_mapped(const std::string& library);

// Returns true if the engine brings a libtorch under names of its own (src/bundle).
bool has_bundled_torch(const ElfNeeds& needs);

// Returns false if no libtorch is mapped, true if the engine's own is. Throws Error(unsupported), naming both
// with version and path, if another one is mapped.
bool shares_mapped_torch(const std::string& engine_path, const ElfNeeds& needs);

// Returns the sizes of the libraries that the dynamic linker will map for the engine, with its own, as far as
// they are found and not mapped yet. Throws as read_elf_needs().
std::vector<size_t> sizes_to_map(const ElfNeeds& engine);

// Returns "1.13" for libtorch_cpu.so.1.13, "2.15.0+cpu" from version.py next to a Python package's lib/, else
// "unknown".
std::string torch_version_of(const std::string& library_path);

}  // namespace trl::engine
