#include "bundle/symbol_versions.h"

#include <algorithm>
#include <string>

#include "bundle/table_bytes.h"

namespace trl::bundle {

namespace {

constexpr const char* kPackedVersion = "GLIBC_ABI_DT_RELR";  // glibc asks for it if a library has DT_RELR

uint16_t number_of(uint16_t index) { return static_cast<uint16_t>(index & ~kHiddenVersion); }

// Returns the highest number of a version that the library defines.
uint16_t write_definitions(LibraryTables& tables, Strings& strings) {
  uint16_t last = 1;
  const Elf64_Shdr* definitions = tables.file.section(SHT_GNU_verdef);
  if (definitions == nullptr) return last;
  std::string& table = tables.table_of(definitions) = tables.content(*definitions);
  uint64_t at = 0;
  for (uint32_t i = 0; i < definitions->sh_info; ++i) {
    const auto entry = value_at<Elf64_Verdef>(table, at);
    last = std::max(last, number_of(entry.vd_ndx));
    uint64_t aux = at + entry.vd_aux;
    for (uint16_t k = 0; k < entry.vd_cnt; ++k) {
      auto name = value_at<Elf64_Verdaux>(table, aux);
      name.vda_name = strings.add(tables.file.text(*definitions, name.vda_name));
      put_at(table, aux, name);
      aux += name.vda_next;
    }
    at += entry.vd_next;
  }
  return last;
}

// The entry for the C library in a table of required versions.
struct OfLibC {
  uint64_t need = 0, last_version = 0;
};

void add_packed_version(std::string& table, const OfLibC& libc, uint16_t number, Strings& strings) {
  auto need = value_at<Elf64_Verneed>(table, libc.need);
  auto before = value_at<Elf64_Vernaux>(table, libc.last_version);
  Elf64_Vernaux version{};
  version.vna_hash = version_hash(kPackedVersion);
  version.vna_other = number;
  version.vna_name = strings.add(kPackedVersion);
  before.vna_next = static_cast<uint32_t>(table.size() - libc.last_version);
  ++need.vn_cnt;
  put_at(table, libc.need, need);
  put_at(table, libc.last_version, before);
  table.append(reinterpret_cast<const char*>(&version), sizeof version);
}

}  // namespace

void write_versions(LibraryTables& tables, Strings& strings, bool packed) {
  uint16_t last = write_definitions(tables, strings);
  const File& file = tables.file;
  const Elf64_Shdr* needs = file.section(SHT_GNU_verneed);
  if (needs == nullptr) return;
  std::string& table = tables.table_of(needs) = tables.content(*needs);
  OfLibC libc;
  bool is_libc = false;
  each_version_need(
      file,
      [&](const Elf64_Shdr& section, uint64_t at) {
        auto need = file.at<Elf64_Verneed>(at);
        const std::string name = file.text(section, need.vn_file);
        need.vn_file = strings.add(name);
        is_libc = name == kLibC;
        if (is_libc) libc.need = at - section.sh_offset;
        put_at(table, at - section.sh_offset, need);
      },
      [&](const Elf64_Shdr& section, uint64_t at) {
        auto version = file.at<Elf64_Vernaux>(at);
        version.vna_name = strings.add(file.text(section, version.vna_name));
        last = std::max(last, number_of(version.vna_other));
        if (is_libc) libc.last_version = at - section.sh_offset;
        put_at(table, at - section.sh_offset, version);
      });
  if (packed) add_packed_version(table, libc, static_cast<uint16_t>(last + 1), strings);
}

}  // namespace trl::bundle
