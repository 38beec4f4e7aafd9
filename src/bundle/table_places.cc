#include "bundle/table_places.h"

#include <vector>

#include "bundle/relocations.h"
#include "bundle/table_bytes.h"

namespace trl::bundle {

namespace {

// Gives the entry the place and the size that its table has now. Returns false if it goes.
bool update(Elf64_Dyn& entry, LibraryTables& tables, const BoundRelocations& bound,
            const std::map<uint64_t, uint64_t>& moved) {
  switch (entry.d_tag) {
    case DT_HASH:
    case DT_RELACOUNT:
      return false;
    case DT_GNU_HASH:
    case DT_STRTAB:
    case DT_SYMTAB:
    case DT_VERSYM:
    case DT_VERDEF:
    case DT_VERNEED:
    case DT_RELA:
      entry.d_un.d_ptr = moved.at(entry.d_un.d_ptr);
      return true;
    case DT_JMPREL:
      if (tables.calls != nullptr) entry.d_un.d_ptr = moved.at(entry.d_un.d_ptr);
      return true;
    case DT_STRSZ:
      entry.d_un.d_val = tables.table_of(&tables.file.strings_of(*tables.dynamic)).size();
      return true;
    case DT_RELASZ:
      entry.d_un.d_val = bound.data.size() * sizeof(Elf64_Rela);
      return true;
    case DT_PLTRELSZ:
      entry.d_un.d_val = bound.calls.size() * sizeof(Elf64_Rela);
      return true;
    default:
      return true;
  }
}

}  // namespace

uint64_t append_table(std::string& image, const std::string& table) {
  image.resize((image.size() + kTableAlignment - 1) / kTableAlignment * kTableAlignment);
  const uint64_t at = image.size();
  image += table;
  return at;
}

PlacedTables place_tables(LibraryTables& tables, const BoundRelocations& bound) {
  if (const Elf64_Shdr* plain_hash = tables.file.section(SHT_HASH)) tables.drop(plain_hash);
  PlacedTables placed;
  placed.image = tables.file.bytes().substr(0, tables.begin);
  for (const auto& [index, table] : tables.tables) placed.places[index] = append_table(placed.image, table);
  placed.packed_place = append_table(placed.image, bytes_of(pack(bound.packed)));
  placed.packed_size = placed.image.size() - placed.packed_place;
  return placed;
}

void write_dynamic(LibraryTables& tables, const BoundRelocations& bound, const PlacedTables& placed) {
  std::map<uint64_t, uint64_t> moved;  // address before -> after
  for (const auto& [index, place] : placed.places) moved[tables.file.sections()[index].sh_addr] = place;
  std::vector<Elf64_Dyn> entries;
  for (Elf64_Dyn entry : tables.entries)
    if (update(entry, tables, bound, moved)) entries.push_back(entry);
  const auto add = [&](int64_t tag, uint64_t value) {
    Elf64_Dyn entry{};
    entry.d_tag = tag;
    entry.d_un.d_val = value;
    entries.push_back(entry);
  };
  if (!bound.packed.empty()) {
    add(DT_RELR, placed.packed_place);
    add(DT_RELRSZ, placed.packed_size);
    add(DT_RELRENT, sizeof(Elf64_Relr));
  } else if (bound.relative_count != 0 && tables.counts) {
    add(DT_RELACOUNT, bound.relative_count);
  }
  entries.resize(tables.dynamic->sh_size / sizeof(Elf64_Dyn));
  tables.file.bytes().replace(tables.dynamic->sh_offset, tables.dynamic->sh_size, bytes_of(entries));
}

}  // namespace trl::bundle
