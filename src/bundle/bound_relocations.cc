#include "bundle/bound_relocations.h"

#include <algorithm>

#include "bundle/relocations.h"
#include "bundle/table_bytes.h"

namespace trl::bundle {

namespace {

// Returns the offset in the file of eight bytes at an address, or 0.
uint64_t offset_of(const LibraryTables& tables, uint64_t address) {
  for (const Elf64_Phdr& load : tables.loads)
    if (address >= load.p_vaddr && address - load.p_vaddr + sizeof(uint64_t) <= load.p_filesz)
      return load.p_offset + (address - load.p_vaddr);
  return 0;
}

// Whether whoever asks for the name of a symbol finds the one of this library.
bool is_own(const LibraryTables& tables, const Names* names, const Elf64_Sym& symbol) {
  const int type = ELF64_ST_TYPE(symbol.st_info);
  return symbol.st_shndx != SHN_UNDEF && symbol.st_shndx < SHN_LORESERVE &&
         (type == STT_NOTYPE || type == STT_OBJECT || type == STT_FUNC) &&
         uses_of(tables, names, symbol).defining <= 1;
}

void add_relative(LibraryTables& tables, BoundRelocations& bound, uint64_t place, uint64_t address) {
  const uint64_t offset = place % 2 == 0 ? offset_of(tables, place) : 0;
  if (tables.packs && offset != 0) {
    tables.file.put(offset, address);
    bound.packed.push_back(place);
  } else {
    bound.data.push_back(relative(tables.header.e_machine, place, address));
    ++bound.relative_count;
  }
}

}  // namespace

Uses uses_of(const LibraryTables& tables, const Names* names, const Elf64_Sym& symbol) {
  if (names == nullptr) return {.defining = 2, .asked = true};
  const auto found = names->find(tables.name_of(symbol));
  return found == names->end() ? Uses{} : found->second;
}

BoundRelocations bind_own_names(LibraryTables& tables, const Names* names) {
  BoundRelocations bound;
  bound.symbols = tables.file.all<Elf64_Sym>(tables.symbols);
  std::vector<Elf64_Rela> others;
  for (const Elf64_Shdr* list : {tables.data, tables.calls}) {
    for (const Elf64_Rela& entry : tables.file.all<Elf64_Rela>(list)) {
      const Relocation kind = kind_of(tables.header.e_machine, entry);
      const uint64_t index = ELF64_R_SYM(entry.r_info);
      if (index >= bound.symbols.size()) tables.file.fail("a relocation by a symbol that is not there");
      const bool by_name = kind == Relocation::kAddress || (kind == Relocation::kSlot && tables.binds_now);
      if (kind == Relocation::kNone && list == tables.data) continue;
      if (kind == Relocation::kRelative) {
        add_relative(tables, bound, entry.r_offset, static_cast<uint64_t>(entry.r_addend));
      } else if (by_name && is_own(tables, names, bound.symbols[index])) {
        const uint64_t addend = kind == Relocation::kSlot ? 0 : static_cast<uint64_t>(entry.r_addend);
        add_relative(tables, bound, entry.r_offset, bound.symbols[index].st_value + addend);
      } else {
        bound.used.insert(index);
        (list == tables.data ? others : bound.calls).push_back(entry);
      }
    }
  }
  bound.data.insert(bound.data.end(), others.begin(), others.end());
  std::sort(bound.packed.begin(), bound.packed.end());
  if (std::adjacent_find(bound.packed.begin(), bound.packed.end()) != bound.packed.end())
    tables.file.fail("two relocations of one place");
  return bound;
}

}  // namespace trl::bundle
