#include "engine/elf_needs.h"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/files/files.h"

namespace trl::engine {

namespace {

class Elf {
 public:
  explicit Elf(const std::string& path) : file_(path), header_(read<ElfW(Ehdr)>(0)) {
    constexpr unsigned char kClass = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
    if (std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0 || header_.e_ident[EI_CLASS] != kClass) {
      fail(Status::format, "{}: not a shared library of this machine", path);
    }
    for (size_t i = 0; i < header_.e_phnum; ++i) {
      segments_.push_back(read<ElfW(Phdr)>(header_.e_phoff + i * sizeof(ElfW(Phdr))));
    }
  }

  ElfNeeds needs() const {
    ElfNeeds needs;
    std::vector<ElfW(Dyn)> entries = dynamic_entries();
    size_t strings = 0;
    for (const auto& entry : entries) {
      if (entry.d_tag == DT_STRTAB) strings = offset_of(entry.d_un.d_ptr);
    }
    for (const auto& entry : entries) {
      if (entry.d_tag == DT_NEEDED) needs.libraries.push_back(text(strings + entry.d_un.d_val));
      if (entry.d_tag == DT_RUNPATH || entry.d_tag == DT_RPATH)
        add_directories(text(strings + entry.d_un.d_val), needs);
    }
    return needs;
  }

 private:
  template <typename T>
  T read(size_t offset) const {
    const std::string_view bytes = file_.bytes();
    if (offset > bytes.size() || bytes.size() - offset < sizeof(T))
      fail(Status::format, "{}: truncated", file_.path());
    T value;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
  }

  std::string text(size_t offset) const {
    const std::string_view bytes = file_.bytes();
    const size_t end = offset < bytes.size() ? bytes.find('\0', offset) : std::string_view::npos;
    if (end == std::string_view::npos) fail(Status::format, "{}: truncated", file_.path());
    return std::string(bytes.substr(offset, end - offset));
  }

  std::vector<ElfW(Dyn)> dynamic_entries() const {
    std::vector<ElfW(Dyn)> entries;
    for (const auto& segment : segments_) {
      if (segment.p_type != PT_DYNAMIC) continue;
      for (size_t at = 0; at + sizeof(ElfW(Dyn)) <= segment.p_filesz; at += sizeof(ElfW(Dyn))) {
        entries.push_back(read<ElfW(Dyn)>(segment.p_offset + at));
        if (entries.back().d_tag == DT_NULL) break;
      }
    }
    return entries;
  }

  // Returns the offset in the file of the byte that is loaded at `address`.
  size_t offset_of(size_t address) const {
    for (const auto& segment : segments_) {
      if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
          address - segment.p_vaddr < segment.p_filesz) {
        return segment.p_offset + (address - segment.p_vaddr);
      }
    }
    fail(Status::format, "{}: its string table is in no segment", file_.path());
  }

  void add_directories(const std::string& list, ElfNeeds& needs) const {
    const std::string& path = file_.path();
    const std::string origin = path.substr(0, path.find_last_of('/'));
    for (size_t begin = 0; begin <= list.size();) {
      const size_t end = std::min(list.find(':', begin), list.size());
      std::string directory = list.substr(begin, end - begin);
      for (const std::string_view name : {"$ORIGIN", "${ORIGIN}"}) {
        if (directory.starts_with(name)) directory.replace(0, name.size(), origin);
      }
      if (!directory.empty()) needs.directories.push_back(directory);
      begin = end + 1;
    }
  }

  const base::MappedFile file_;
  const ElfW(Ehdr) header_;
  std::vector<ElfW(Phdr)> segments_;
};

}  // namespace

ElfNeeds read_elf_needs(const std::string& path) { return Elf(path).needs(); }

}  // namespace trl::engine
