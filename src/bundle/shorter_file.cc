#include "bundle/shorter_file.h"

#include <algorithm>
#include <vector>

#include "bundle/table_bytes.h"

namespace trl::bundle {

namespace {

constexpr const char* kPackedSection = ".relr.dyn";

void write_segments(std::string& image, LibraryTables& tables, uint64_t first_size, uint64_t next,
                    uint64_t shift) {
  for (uint32_t i = 0; i < tables.header.e_phnum; ++i) {
    Elf64_Phdr& segment = tables.segments[i];
    if (segment.p_type == PT_LOAD && segment.p_offset == 0) segment.p_filesz = segment.p_memsz = first_size;
    if (segment.p_offset >= next) segment.p_offset -= shift;
    put_at(image, tables.header.e_phoff + i * sizeof segment, segment);
  }
}

std::vector<Elf64_Shdr> moved_sections(const LibraryTables& tables, const PlacedTables& placed,
                                       uint32_t locals, uint64_t next, uint64_t shift) {
  std::vector<Elf64_Shdr> sections = tables.file.sections();
  for (uint32_t i = 1; i < sections.size(); ++i) {
    Elf64_Shdr& section = sections[i];
    if (const auto table = placed.places.find(i); table != placed.places.end()) {
      section.sh_addr = section.sh_offset = table->second;
      section.sh_size = tables.tables.at(i).size();
      if (section.sh_type == SHT_DYNSYM) section.sh_info = locals;
    } else if (section.sh_type == SHT_HASH) {
      section = {};
    } else if (section.sh_offset >= next) {
      section.sh_offset -= shift;
    }
  }
  return sections;
}

// Appends the names of the sections and their list.
void write_sections(std::string& image, const LibraryTables& tables, const PlacedTables& placed,
                    std::vector<Elf64_Shdr> sections) {
  Elf64_Ehdr header = tables.header;
  std::string names = tables.content(tables.file.sections().at(header.e_shstrndx));
  if (placed.packed_size != 0) {
    Elf64_Shdr section{};
    section.sh_name = static_cast<uint32_t>(names.size());
    section.sh_type = SHT_RELR;
    section.sh_flags = SHF_ALLOC;
    section.sh_addr = section.sh_offset = placed.packed_place;
    section.sh_size = placed.packed_size;
    section.sh_addralign = section.sh_entsize = sizeof(Elf64_Relr);
    sections.push_back(section);
    names.append(kPackedSection, std::string(kPackedSection).size() + 1);
  }
  sections[header.e_shstrndx].sh_size = names.size();
  sections[header.e_shstrndx].sh_offset = append_table(image, names);
  header.e_shnum = static_cast<uint16_t>(sections.size());
  header.e_shoff = append_table(image, bytes_of(sections));
  put_at(image, 0, header);
}

// Returns the end of all that the file has but the list of sections and their names.
uint64_t end_of(const LibraryTables& tables) {
  const std::vector<Elf64_Shdr>& sections = tables.file.sections();
  uint64_t end = tables.loads[1].p_offset;
  for (const Elf64_Phdr& load : tables.loads) end = std::max(end, load.p_offset + load.p_filesz);
  for (uint32_t i = 1; i < sections.size(); ++i)
    if (i != tables.header.e_shstrndx && sections[i].sh_type != SHT_NOBITS)
      end = std::max(end, sections[i].sh_offset + sections[i].sh_size);
  return end;
}

}  // namespace

void write_shorter(LibraryTables& tables, PlacedTables placed, uint32_t locals) {
  uint64_t page = 1;
  for (const Elf64_Phdr& load : tables.loads) page = std::max(page, load.p_align);
  std::string& image = placed.image;
  const uint64_t next = tables.loads[1].p_offset, size = image.size();
  if (size + page > next) return;
  const uint64_t shift = (next - size) / page * page;
  image.resize(next - shift);
  image += tables.file.bytes().substr(next, end_of(tables) - next);
  write_segments(image, tables, size, next, shift);
  write_sections(image, tables, placed, moved_sections(tables, placed, locals, next, shift));
  tables.file.bytes() = std::move(image);
  tables.file.write();
}

}  // namespace trl::bundle
