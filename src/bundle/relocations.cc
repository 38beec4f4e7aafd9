#include "bundle/relocations.h"

#include <cstddef>

namespace trl::bundle {

namespace {

struct Machine {
  uint16_t number;
  uint32_t none, relative, absolute, entry, slot;
};

constexpr Machine kMachines[] = {
    {EM_X86_64, R_X86_64_NONE, R_X86_64_RELATIVE, R_X86_64_64, R_X86_64_GLOB_DAT, R_X86_64_JUMP_SLOT},
    {EM_AARCH64, R_AARCH64_NONE, R_AARCH64_RELATIVE, R_AARCH64_ABS64, R_AARCH64_GLOB_DAT,
     R_AARCH64_JUMP_SLOT}};

const Machine* machine_of(uint16_t number) {
  for (const Machine& machine : kMachines)
    if (machine.number == number) return &machine;
  return nullptr;
}

}  // namespace

bool knows_relocations(uint16_t machine) { return machine_of(machine) != nullptr; }

Relocation kind_of(uint16_t machine, const Elf64_Rela& relocation) {
  const Machine* known = machine_of(machine);
  const uint64_t type = ELF64_R_TYPE(relocation.r_info);
  if (known == nullptr) return Relocation::kOther;
  if (type == known->none) return Relocation::kNone;
  if (type == known->relative) return Relocation::kRelative;
  if (type == known->absolute || type == known->entry) return Relocation::kAddress;
  return type == known->slot ? Relocation::kSlot : Relocation::kOther;
}

Elf64_Rela relative(uint16_t machine, uint64_t place, uint64_t address) {
  Elf64_Rela relocation{};
  relocation.r_offset = place;
  relocation.r_info = machine_of(machine)->relative;
  relocation.r_addend = static_cast<int64_t>(address);
  return relocation;
}

std::vector<uint64_t> pack(const std::vector<uint64_t>& places) {
  constexpr uint64_t kWord = sizeof(uint64_t), kBits = 63;
  std::vector<uint64_t> words;
  for (size_t i = 0; i < places.size();) {
    words.push_back(places[i]);
    uint64_t next = places[i++] + kWord;
    for (uint64_t bits = 1; bits != 0; next += kBits * kWord) {
      bits = 0;
      for (; i < places.size() && places[i] - next < kBits * kWord && (places[i] - next) % kWord == 0; ++i)
        bits |= uint64_t{1} << (places[i] - next) / kWord;
      if (bits != 0) words.push_back(bits << 1 | 1);
    }
  }
  return words;
}

}  // namespace trl::bundle
