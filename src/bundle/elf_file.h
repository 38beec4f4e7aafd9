// A shared library as bytes, and the entries of its tables.
#pragma once
#include <elf.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace trl::bundle {

inline constexpr uint16_t kHiddenVersion = 0x8000;

class File {
 public:
  explicit File(std::string path);

  template <typename T>
  T at(uint64_t offset) const {
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T)) fail("truncated");
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof value);
    return value;
  }

  template <typename T>
  void put(uint64_t offset, const T& value) {
    at<T>(offset);  // checks that it is inside
    std::memcpy(bytes_.data() + offset, &value, sizeof value);
  }

  // Returns all entries of a section, or of none if it is nullptr.
  template <typename T>
  std::vector<T> all(const Elf64_Shdr* section) const {
    std::vector<T> entries(section == nullptr ? 0 : section->sh_size / sizeof(T));
    for (uint64_t i = 0; i < entries.size(); ++i) entries[i] = at<T>(section->sh_offset + i * sizeof(T));
    return entries;
  }

  const std::vector<Elf64_Shdr>& sections() const { return sections_; }
  // Returns the first section of that type, or nullptr.
  const Elf64_Shdr* section(uint32_t type) const;
  const Elf64_Shdr& strings_of(const Elf64_Shdr& user) const;
  std::string text(const Elf64_Shdr& user, uint64_t offset) const;

  std::string& bytes() { return bytes_; }
  const std::string& bytes() const { return bytes_; }
  void write() const;

  [[noreturn]] void fail(const std::string& why) const;

 private:
  const std::string path_;
  std::string bytes_;
  std::vector<Elf64_Shdr> sections_;
};

// Whether the value of an entry of the dynamic section is the offset of a string.
bool is_text(int64_t tag);

// Calls `need` with the place of each library that versions are asked of, and `version` with that of each
// version asked for.
template <typename Need, typename Version>
void each_version_need(const File& file, const Need& need, const Version& version) {
  const Elf64_Shdr* section = file.section(SHT_GNU_verneed);
  if (section == nullptr) return;
  uint64_t at = section->sh_offset;
  for (uint32_t i = 0; i < section->sh_info; ++i) {
    const auto entry = file.at<Elf64_Verneed>(at);
    need(*section, at);
    uint64_t aux = at + entry.vn_aux;
    for (uint16_t k = 0; k < entry.vn_cnt; ++k) {
      version(*section, aux);
      aux += file.at<Elf64_Vernaux>(aux).vna_next;
    }
    at += entry.vn_next;
  }
}

// Calls `version` with each definition of a version, and with its name's offset among the strings.
template <typename Version>
void each_version_definition(const File& file, const Version& version) {
  const Elf64_Shdr* section = file.section(SHT_GNU_verdef);
  if (section == nullptr) return;
  uint64_t at = section->sh_offset;
  for (uint32_t i = 0; i < section->sh_info; ++i) {
    const auto entry = file.at<Elf64_Verdef>(at);
    uint64_t aux = at + entry.vd_aux;
    for (uint16_t k = 0; k < entry.vd_cnt; ++k) {  // the first is its own, the others are its predecessors
      version(*section, entry, file.at<Elf64_Verdaux>(aux).vda_name, k == 0);
      aux += file.at<Elf64_Verdaux>(aux).vda_next;
    }
    at += entry.vd_next;
  }
}

}  // namespace trl::bundle
