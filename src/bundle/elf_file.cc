#include "bundle/elf_file.h"

#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace trl::bundle {

File::File(std::string path) : path_(std::move(path)) {
  std::ifstream in(path_, std::ios::binary);
  if (!in) fail("cannot be read");
  bytes_.assign(std::istreambuf_iterator<char>(in), {});
  const auto header = at<Elf64_Ehdr>(0);
  constexpr int kOrder = std::endian::native == std::endian::little ? ELFDATA2LSB : ELFDATA2MSB;
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != kOrder)
    fail("not a 64-bit library of this machine");
  for (uint64_t i = 0; i < header.e_shnum; ++i)
    sections_.push_back(at<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr)));
}

const Elf64_Shdr* File::section(uint32_t type) const {
  for (const Elf64_Shdr& section : sections_)
    if (section.sh_type == type) return &section;
  return nullptr;
}

const Elf64_Shdr& File::strings_of(const Elf64_Shdr& user) const {
  if (user.sh_link >= sections_.size()) fail("a section without its strings");
  return sections_[user.sh_link];
}

std::string File::text(const Elf64_Shdr& user, uint64_t offset) const {
  const uint64_t begin = strings_of(user).sh_offset + offset;
  if (begin >= bytes_.size()) fail("truncated");
  const size_t end = bytes_.find('\0', begin);
  if (end == std::string::npos) fail("truncated");
  return bytes_.substr(begin, end - begin);
}

void File::write() const {
  std::ofstream out(path_, std::ios::binary | std::ios::trunc);
  out.write(bytes_.data(), static_cast<std::streamsize>(bytes_.size()));
  if (!out.flush()) fail(std::string("cannot be written: ") + std::strerror(errno));
}

void File::fail(const std::string& why) const { throw std::runtime_error(path_ + ": " + why); }

bool is_text(int64_t tag) {
  return tag == DT_NEEDED || tag == DT_SONAME || tag == DT_RPATH || tag == DT_RUNPATH ||
         tag == DT_AUXILIARY || tag == DT_FILTER || tag == DT_AUDIT || tag == DT_DEPAUDIT || tag == DT_CONFIG;
}

}  // namespace trl::bundle
