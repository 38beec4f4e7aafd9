// The tables that the dynamic linker reads of a library: their places, and their new bytes.
#pragma once
#include <elf.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "bundle/elf_file.h"

namespace trl::bundle {

class LibraryTables {
 public:
  explicit LibraryTables(const std::string& path);

  // Returns whether the file has the form that a linker gives shared libraries: its first segment holds these
  // tables last, and no other segment has one. Only then are the members below complete.
  bool find();

  // Returns the new bytes of a table, which must be one of `tables`.
  std::string& table_of(const Elf64_Shdr* section) { return tables.at(number_of(section)); }
  void drop(const Elf64_Shdr* section) { tables.erase(number_of(section)); }
  // Returns the bytes of a section as they are in the file.
  std::string content(const Elf64_Shdr& section) const {
    return file.bytes().substr(section.sh_offset, section.sh_size);
  }
  std::string name_of(const Elf64_Sym& symbol) const { return file.text(*symbols, symbol.st_name); }

  File file;
  const Elf64_Ehdr header;
  std::vector<Elf64_Phdr> segments, loads;
  std::vector<Elf64_Dyn> entries;          // of the dynamic section
  const Elf64_Shdr* dynamic = nullptr;     // section
  const Elf64_Shdr* symbols = nullptr;     // section
  const Elf64_Shdr* data = nullptr;        // section of relocations
  const Elf64_Shdr* calls = nullptr;       // relocations of calls by a table; may be absent
  std::map<uint32_t, std::string> tables;  // by the number of the section
  uint64_t begin = 0;                      // of the first table
  bool binds_now = false;
  bool counts = false;  // says how many relocations are relative
  bool packs = false;   // has room to list them in DT_RELR

 private:
  uint32_t number_of(const Elf64_Shdr* section) const {
    return static_cast<uint32_t>(section - file.sections().data());
  }
  bool find_segments();
  bool find_sections();
  bool find_relocations();
  bool needs_versions_of_libc() const;
};

}  // namespace trl::bundle
