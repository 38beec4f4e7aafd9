// Binds a library's own names, and keeps the relocations that the dynamic linker must still look up by name.
#pragma once
#include <elf.h>

#include <cstdint>
#include <set>
#include <vector>

#include "bundle/compact.h"
#include "bundle/library_tables.h"

namespace trl::bundle {

// Returns how a bundle uses the name of a symbol; names == nullptr: all names stay as they are.
Uses uses_of(const LibraryTables& tables, const Names* names, const Elf64_Sym& symbol);

struct BoundRelocations {
  std::vector<Elf64_Sym> symbols;       // all of the library
  std::set<uint64_t> used;              // numbers of symbols that relocations name
  std::vector<Elf64_Rela> data, calls;  // the lists that are left
  uint64_t relative_count = 0;          // at the beginning of `data`
  std::vector<uint64_t> packed;         // places that only the base is added to, ascending
};

// Binds the names that a library takes from itself, and writes the address to each packed place of the file.
BoundRelocations bind_own_names(LibraryTables& tables, const Names* names);

}  // namespace trl::bundle
