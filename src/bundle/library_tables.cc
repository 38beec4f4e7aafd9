#include "bundle/library_tables.h"

#include <algorithm>
#include <set>

#include "bundle/relocations.h"
#include "bundle/symbol_versions.h"
#include "bundle/table_bytes.h"

namespace trl::bundle {

LibraryTables::LibraryTables(const std::string& path) : file(path), header(file.at<Elf64_Ehdr>(0)) {
  for (uint64_t i = 0; i < header.e_phnum; ++i)
    segments.push_back(file.at<Elf64_Phdr>(header.e_phoff + i * sizeof(Elf64_Phdr)));
}

bool LibraryTables::find() {
  dynamic = file.section(SHT_DYNAMIC);
  symbols = file.section(SHT_DYNSYM);
  if (dynamic == nullptr || symbols == nullptr || file.section(SHT_GNU_HASH) == nullptr ||
      file.section(SHT_RELR) != nullptr || !knows_relocations(header.e_machine))
    return false;
  for (const auto& entry : file.all<Elf64_Dyn>(dynamic)) {
    if (entry.d_tag == DT_NULL) break;
    entries.push_back(entry);
  }
  return find_segments() && find_sections() && find_relocations();
}

bool LibraryTables::find_segments() {
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type == PT_INTERP) return false;  // a program
    if (segment.p_type == PT_LOAD) loads.push_back(segment);
  }
  if (loads.size() < 2 || loads[0].p_offset != 0 || loads[0].p_vaddr != 0 || loads[0].p_flags != PF_R)
    return false;
  for (size_t i = 1; i < loads.size(); ++i)
    if (loads[i].p_offset < loads[i - 1].p_offset + loads[i - 1].p_filesz) return false;
  return true;
}

bool LibraryTables::find_sections() {
  const std::vector<Elf64_Shdr>& sections = file.sections();
  begin = loads[0].p_filesz;
  uint64_t fixed_end = 0;
  for (uint32_t i = 1; i < sections.size(); ++i) {
    const Elf64_Shdr& section = sections[i];
    if ((section.sh_flags & SHF_ALLOC) == 0) continue;
    static const std::set<uint32_t> kTables = {SHT_HASH,       SHT_GNU_HASH,    SHT_DYNSYM,     SHT_STRTAB,
                                               SHT_GNU_versym, SHT_GNU_verneed, SHT_GNU_verdef, SHT_RELA};
    const bool is_table = kTables.contains(section.sh_type);
    if (section.sh_addr >= loads[0].p_filesz) {
      if (is_table) return false;
      continue;
    }
    if (section.sh_offset != section.sh_addr) return false;
    if (is_table) {
      begin = std::min(begin, section.sh_addr);
      tables[i];
    } else {
      fixed_end = std::max(fixed_end, section.sh_addr + section.sh_size);
    }
  }
  return fixed_end <= begin && begin % kTableAlignment == 0;
}

// Finds the two lists of relocations, one of which is for calls by a table.
bool LibraryTables::find_relocations() {
  const auto value = [&](int64_t tag) -> uint64_t {
    for (const Elf64_Dyn& entry : entries)
      if (entry.d_tag == tag) return entry.d_un.d_val;
    return 0;
  };
  for (const auto& [index, table] : tables) {
    const Elf64_Shdr& section = file.sections()[index];
    if (section.sh_type != SHT_RELA) continue;
    if (section.sh_addr == value(DT_JMPREL) && section.sh_size == value(DT_PLTRELSZ))
      calls = &section;
    else if (section.sh_addr == value(DT_RELA) && section.sh_size == value(DT_RELASZ))
      data = &section;
    else
      return false;
  }
  binds_now = (value(DT_FLAGS) & DF_BIND_NOW) != 0 || (value(DT_FLAGS_1) & DF_1_NOW) != 0;
  constexpr size_t kNew = 3, kEnd = 1;  // of the dynamic section
  counts = value(DT_RELACOUNT) != 0;
  packs = entries.size() - (counts ? 1 : 0) + kNew + kEnd <= dynamic->sh_size / sizeof(Elf64_Dyn) &&
          needs_versions_of_libc();
  return data != nullptr;
}

bool LibraryTables::needs_versions_of_libc() const {
  bool found = false;
  each_version_need(
      file,
      [&](const Elf64_Shdr& section, uint64_t at) {
        found = found || file.text(section, file.at<Elf64_Verneed>(at).vn_file) == kLibC;
      },
      [](const Elf64_Shdr&, uint64_t) {});
  return found;
}

}  // namespace trl::bundle
