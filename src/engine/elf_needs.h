// The needs that a shared library declares to the dynamic linker, read from its file without loading it.
#pragma once
#include <string>
#include <vector>

namespace trl::engine {

struct ElfNeeds {
  std::vector<std::string> libraries;    // DT_NEEDED
  std::vector<std::string> directories;  // DT_RUNPATH or DT_RPATH, $ORIGIN resolved
};

// Throws Error(format) if the file is not an ELF library of this machine's word size, or its sizes are false.
ElfNeeds read_elf_needs(const std::string& path);

}  // namespace trl::engine
