// Relocations: the places of a library that the dynamic linker writes to once it has loaded it.
#pragma once
#include <elf.h>

#include <cstdint>
#include <vector>

namespace trl::bundle {

enum class Relocation {
  kOther,
  kNone,
  kRelative,  // the library's base and the addend
  kAddress,   // the address of a symbol, and the addend
  kSlot       // the address of a function that is called by a table
};

// Whether the relocations of this machine (EM_X86_64 and others) are known.
bool knows_relocations(uint16_t machine);
Relocation kind_of(uint16_t machine, const Elf64_Rela& relocation);
Elf64_Rela relative(uint16_t machine, uint64_t place, uint64_t address);

// Returns the table DT_RELR of these places, which are ascending and even: a place, then bits for those that
// follow.
std::vector<uint64_t> pack(const std::vector<uint64_t>& places);

}  // namespace trl::bundle
