#include "bundle/compact.h"

#include <elf.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "bundle/elf_file.h"
#include "bundle/relocations.h"
#include "bundle/symbol_table.h"

namespace trl::bundle {

namespace {

constexpr uint64_t kAlignment = 8;
constexpr const char* kLibC = "libc.so.6";
constexpr const char* kPackedVersion = "GLIBC_ABI_DT_RELR";  // glibc asks for it where DT_RELR is
constexpr const char* kPackedSection = ".relr.dyn";

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <typename T>
T value_at(const std::string& bytes, uint64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

template <typename T>
void put_at(std::string& bytes, uint64_t offset, const T& value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

class Compactor {
 public:
  Compactor(const std::string& path, const Names* names) : file_(path), names_(names) {
    header_ = file_.at<Elf64_Ehdr>(0);
    for (uint64_t i = 0; i < header_.e_phnum; ++i)
      segments_.push_back(file_.at<Elf64_Phdr>(header_.e_phoff + i * sizeof(Elf64_Phdr)));
  }

  void run() {
    if (!find_tables()) return;
    bind();
    choose_symbols();
    write_versions();
    write_dynamic();
    assemble();
  }

 private:
  // Whether the file has the form that is expected; finds its tables.
  bool find_tables() {
    dynamic_ = file_.section(SHT_DYNAMIC);
    symbol_section_ = file_.section(SHT_DYNSYM);
    if (dynamic_ == nullptr || symbol_section_ == nullptr || file_.section(SHT_GNU_HASH) == nullptr ||
        file_.section(SHT_RELR) != nullptr || !knows_relocations(header_.e_machine))
      return false;
    for (const auto& entry : file_.all<Elf64_Dyn>(dynamic_)) {
      if (entry.d_tag == DT_NULL) break;
      entries_.push_back(entry);
    }
    return find_segments() && find_sections() && find_relocations();
  }

  bool find_segments() {
    for (const Elf64_Phdr& segment : segments_) {
      if (segment.p_type == PT_INTERP) return false;  // a program
      if (segment.p_type == PT_LOAD) loads_.push_back(segment);
    }
    if (loads_.size() < 2 || loads_[0].p_offset != 0 || loads_[0].p_vaddr != 0 || loads_[0].p_flags != PF_R)
      return false;
    for (size_t i = 1; i < loads_.size(); ++i)
      if (loads_[i].p_offset < loads_[i - 1].p_offset + loads_[i - 1].p_filesz) return false;
    return true;
  }

  bool find_sections() {
    const std::vector<Elf64_Shdr>& sections = file_.sections();
    begin_ = loads_[0].p_filesz;
    uint64_t fixed_end = 0;
    for (uint32_t i = 1; i < sections.size(); ++i) {
      const Elf64_Shdr& section = sections[i];
      if ((section.sh_flags & SHF_ALLOC) == 0) continue;
      static const std::set<uint32_t> kTables = {SHT_HASH,       SHT_GNU_HASH,    SHT_DYNSYM,     SHT_STRTAB,
                                                 SHT_GNU_versym, SHT_GNU_verneed, SHT_GNU_verdef, SHT_RELA};
      const bool is_table = kTables.contains(section.sh_type);
      if (section.sh_addr >= loads_[0].p_filesz) {
        if (is_table) return false;
        continue;
      }
      if (section.sh_offset != section.sh_addr) return false;
      if (is_table) {
        begin_ = std::min(begin_, section.sh_addr);
        tables_[i];
      } else {
        fixed_end = std::max(fixed_end, section.sh_addr + section.sh_size);
      }
    }
    return fixed_end <= begin_ && begin_ % kAlignment == 0;
  }

  // Finds the two lists of relocations, one of which is for calls by a table.
  bool find_relocations() {
    const auto value = [&](int64_t tag) -> uint64_t {
      for (const Elf64_Dyn& entry : entries_)
        if (entry.d_tag == tag) return entry.d_un.d_val;
      return 0;
    };
    for (auto& [index, table] : tables_) {
      const Elf64_Shdr& section = file_.sections()[index];
      if (section.sh_type != SHT_RELA) continue;
      if (section.sh_addr == value(DT_JMPREL) && section.sh_size == value(DT_PLTRELSZ))
        calls_ = &section;
      else if (section.sh_addr == value(DT_RELA) && section.sh_size == value(DT_RELASZ))
        data_ = &section;
      else
        return false;
    }
    binds_now_ = (value(DT_FLAGS) & DF_BIND_NOW) != 0 || (value(DT_FLAGS_1) & DF_1_NOW) != 0;
    constexpr size_t kNew = 3, kEnd = 1;  // of the dynamic section
    counts_ = value(DT_RELACOUNT) != 0;
    packs_ = entries_.size() - (counts_ ? 1 : 0) + kNew + kEnd <= dynamic_->sh_size / sizeof(Elf64_Dyn) &&
             needs_versions_of_libc();
    return data_ != nullptr;
  }

  bool needs_versions_of_libc() const {
    bool found = false;
    each_version_need(
        file_,
        [&](const Elf64_Shdr& section, uint64_t at) {
          found = found || file_.text(section, file_.at<Elf64_Verneed>(at).vn_file) == kLibC;
        },
        [](const Elf64_Shdr&, uint64_t) {});
    return found;
  }

  Uses uses_of(const Elf64_Sym& symbol) const {
    if (names_ == nullptr) return {.defining = 2, .asked = true};
    const auto found = names_->find(file_.text(*symbol_section_, symbol.st_name));
    return found == names_->end() ? Uses{} : found->second;
  }

  // Whether whoever asks for the name of a symbol finds the one of this library.
  bool is_own(const Elf64_Sym& symbol) const {
    const int type = ELF64_ST_TYPE(symbol.st_info);
    return symbol.st_shndx != SHN_UNDEF && symbol.st_shndx < SHN_LORESERVE &&
           (type == STT_NOTYPE || type == STT_OBJECT || type == STT_FUNC) && uses_of(symbol).defining <= 1;
  }

  // Returns the offset in the file of eight bytes at an address, or 0.
  uint64_t offset_of(uint64_t address) const {
    for (const Elf64_Phdr& load : loads_)
      if (address >= load.p_vaddr && address - load.p_vaddr + kAlignment <= load.p_filesz)
        return load.p_offset + (address - load.p_vaddr);
    return 0;
  }

  void add_relative(uint64_t place, uint64_t address) {
    const uint64_t offset = place % 2 == 0 ? offset_of(place) : 0;
    if (packs_ && offset != 0) {
      file_.put(offset, address);
      packed_.push_back(place);
    } else {
      data_left_.push_back(relative(header_.e_machine, place, address));
      ++relative_count_;
    }
  }

  void bind() {
    symbols_ = file_.all<Elf64_Sym>(symbol_section_);
    std::vector<Elf64_Rela> others;
    for (const Elf64_Shdr* list : {data_, calls_}) {
      for (const Elf64_Rela& entry : file_.all<Elf64_Rela>(list)) {
        const Relocation kind = kind_of(header_.e_machine, entry);
        const uint64_t index = ELF64_R_SYM(entry.r_info);
        if (index >= symbols_.size()) file_.fail("a relocation by a symbol that is not there");
        const bool by_name = kind == Relocation::kAddress || (kind == Relocation::kSlot && binds_now_);
        if (kind == Relocation::kNone && list == data_) continue;
        if (kind == Relocation::kRelative) {
          add_relative(entry.r_offset, static_cast<uint64_t>(entry.r_addend));
        } else if (by_name && is_own(symbols_[index])) {
          const uint64_t addend = kind == Relocation::kSlot ? 0 : static_cast<uint64_t>(entry.r_addend);
          add_relative(entry.r_offset, symbols_[index].st_value + addend);
        } else {
          used_.insert(index);
          (list == data_ ? others : calls_left_).push_back(entry);
        }
      }
    }
    data_left_.insert(data_left_.end(), others.begin(), others.end());
    std::sort(packed_.begin(), packed_.end());
    if (std::adjacent_find(packed_.begin(), packed_.end()) != packed_.end())
      file_.fail("two relocations of one place");
  }

  // Keeps the symbols that something asks for: local and undefined ones first, then those that a hash finds.
  void choose_symbols() {
    const Elf64_Shdr* versions = file_.section(SHT_GNU_versym);
    const auto numbers = file_.all<Elf64_Half>(versions);
    std::vector<uint32_t> kept{0}, exported;
    std::vector<std::string> names;
    for (uint32_t i = 1; i < symbols_.size(); ++i) {
      const Elf64_Sym& symbol = symbols_[i];
      const Uses uses = uses_of(symbol);
      const bool local = ELF64_ST_BIND(symbol.st_info) == STB_LOCAL;
      if (local || symbol.st_shndx == SHN_UNDEF) {
        if (used_.contains(i)) kept.push_back(i);
      } else if (used_.contains(i) || uses.asked || uses.defining > 1) {
        exported.push_back(i);
        names.push_back(file_.text(*symbol_section_, symbol.st_name));
      }
    }
    std::stable_partition(kept.begin() + 1, kept.end(),
                          [&](uint32_t i) { return ELF64_ST_BIND(symbols_[i].st_info) == STB_LOCAL; });
    const NameHash hash(names);
    const auto first = static_cast<uint32_t>(kept.size());
    for (const uint32_t i : hash.order()) kept.push_back(exported[i]);
    std::vector<Elf64_Sym> table;
    std::vector<Elf64_Half> table_versions;
    std::map<uint64_t, uint64_t> places;
    for (const uint32_t i : kept) {
      Elf64_Sym symbol = symbols_[i];
      if (i == 0 || ELF64_ST_BIND(symbol.st_info) == STB_LOCAL)
        locals_ = static_cast<uint32_t>(table.size()) + 1;
      symbol.st_name = strings_.add(file_.text(*symbol_section_, symbol.st_name));
      places[i] = table.size();
      table.push_back(symbol);
      if (versions != nullptr) table_versions.push_back(numbers.at(i));
    }
    for (std::vector<Elf64_Rela>* list : {&data_left_, &calls_left_})
      for (Elf64_Rela& entry : *list)
        entry.r_info = ELF64_R_INFO(places.at(ELF64_R_SYM(entry.r_info)), ELF64_R_TYPE(entry.r_info));
    table_of(symbol_section_) = bytes_of(table);
    table_of(file_.section(SHT_GNU_HASH)) = hash.table(first);
    if (versions != nullptr) table_of(versions) = bytes_of(table_versions);
    table_of(data_) = bytes_of(data_left_);
    if (calls_ != nullptr) table_of(calls_) = bytes_of(calls_left_);
  }

  std::string& table_of(const Elf64_Shdr* section) {
    return tables_.at(static_cast<uint32_t>(section - file_.sections().data()));
  }

  // Copies the versions, whose names have other places, and adds the one that packed places need.
  void write_versions() {
    uint16_t last = 1;
    if (const Elf64_Shdr* definitions = file_.section(SHT_GNU_verdef)) {
      std::string& table = table_of(definitions) = content(*definitions);
      uint64_t at = 0;
      for (uint32_t i = 0; i < definitions->sh_info; ++i) {
        const auto entry = value_at<Elf64_Verdef>(table, at);
        last = std::max<uint16_t>(last, entry.vd_ndx & ~kHiddenVersion);
        uint64_t aux = at + entry.vd_aux;
        for (uint16_t k = 0; k < entry.vd_cnt; ++k) {
          auto name = value_at<Elf64_Verdaux>(table, aux);
          name.vda_name = strings_.add(file_.text(*definitions, name.vda_name));
          put_at(table, aux, name);
          aux += name.vda_next;
        }
        at += entry.vd_next;
      }
    }
    const Elf64_Shdr* needs = file_.section(SHT_GNU_verneed);
    if (needs == nullptr) return;
    std::string& table = table_of(needs) = content(*needs);
    uint64_t of_libc = 0, last_of_libc = 0;
    bool is_libc = false;
    each_version_need(
        file_,
        [&](const Elf64_Shdr& section, uint64_t at) {
          auto need = file_.at<Elf64_Verneed>(at);
          const std::string name = file_.text(section, need.vn_file);
          need.vn_file = strings_.add(name);
          is_libc = name == kLibC;
          if (is_libc) of_libc = at - section.sh_offset;
          put_at(table, at - section.sh_offset, need);
        },
        [&](const Elf64_Shdr& section, uint64_t at) {
          auto version = file_.at<Elf64_Vernaux>(at);
          version.vna_name = strings_.add(file_.text(section, version.vna_name));
          last = std::max<uint16_t>(last, version.vna_other & ~kHiddenVersion);
          if (is_libc) last_of_libc = at - section.sh_offset;
          put_at(table, at - section.sh_offset, version);
        });
    if (packed_.empty()) return;
    auto need = value_at<Elf64_Verneed>(table, of_libc);
    auto before = value_at<Elf64_Vernaux>(table, last_of_libc);
    Elf64_Vernaux version{};
    version.vna_hash = version_hash(kPackedVersion);
    version.vna_other = last + 1;
    version.vna_name = strings_.add(kPackedVersion);
    before.vna_next = static_cast<uint32_t>(table.size() - last_of_libc);
    ++need.vn_cnt;
    put_at(table, of_libc, need);
    put_at(table, last_of_libc, before);
    table.append(reinterpret_cast<const char*>(&version), sizeof version);
  }

  std::string content(const Elf64_Shdr& section) const {
    return file_.bytes().substr(section.sh_offset, section.sh_size);
  }

  // Gives each table its place, and has the dynamic section say so.
  void write_dynamic() {
    for (Elf64_Dyn& entry : entries_)
      if (is_text(entry.d_tag)) entry.d_un.d_val = strings_.add(file_.text(*dynamic_, entry.d_un.d_val));
    table_of(&file_.strings_of(*dynamic_)) = strings_.bytes();
    const Elf64_Shdr* plain_hash = file_.section(SHT_HASH);
    if (plain_hash != nullptr) tables_.erase(static_cast<uint32_t>(plain_hash - file_.sections().data()));
    image_ = file_.bytes().substr(0, begin_);
    std::map<uint64_t, uint64_t> moved;  // address before -> after
    for (const auto& [index, table] : tables_) {
      places_[index] = place(table);
      moved[file_.sections()[index].sh_addr] = places_[index];
    }
    packed_place_ = place(bytes_of(pack(packed_)));
    packed_size_ = image_.size() - packed_place_;
    std::vector<Elf64_Dyn> entries;
    for (Elf64_Dyn entry : entries_) {
      switch (entry.d_tag) {
        case DT_HASH:
        case DT_RELACOUNT:
          continue;
        case DT_GNU_HASH:
        case DT_STRTAB:
        case DT_SYMTAB:
        case DT_VERSYM:
        case DT_VERDEF:
        case DT_VERNEED:
        case DT_RELA:
          entry.d_un.d_ptr = moved.at(entry.d_un.d_ptr);
          break;
        case DT_JMPREL:
          if (calls_ != nullptr) entry.d_un.d_ptr = moved.at(entry.d_un.d_ptr);
          break;
        case DT_STRSZ:
          entry.d_un.d_val = strings_.bytes().size();
          break;
        case DT_RELASZ:
          entry.d_un.d_val = data_left_.size() * sizeof(Elf64_Rela);
          break;
        case DT_PLTRELSZ:
          entry.d_un.d_val = calls_left_.size() * sizeof(Elf64_Rela);
          break;
        default:
          break;
      }
      entries.push_back(entry);
    }
    const auto add = [&](int64_t tag, uint64_t value) {
      Elf64_Dyn entry{};
      entry.d_tag = tag;
      entry.d_un.d_val = value;
      entries.push_back(entry);
    };
    if (!packed_.empty()) {
      add(DT_RELR, packed_place_);
      add(DT_RELRSZ, packed_size_);
      add(DT_RELRENT, sizeof(Elf64_Relr));
    } else if (relative_count_ != 0 && counts_) {
      add(DT_RELACOUNT, relative_count_);
    }
    entries.resize(dynamic_->sh_size / sizeof(Elf64_Dyn));
    file_.bytes().replace(dynamic_->sh_offset, dynamic_->sh_size, bytes_of(entries));
  }

  uint64_t place(const std::string& table) {
    image_.resize((image_.size() + kAlignment - 1) / kAlignment * kAlignment);
    const uint64_t at = image_.size();
    image_ += table;
    return at;
  }

  // Moves what follows the first segment towards it, by whole pages, and writes the lists of segments and
  // sections anew.
  void assemble() {
    uint64_t page = 1;
    for (const Elf64_Phdr& load : loads_) page = std::max(page, load.p_align);
    const uint64_t next = loads_[1].p_offset, size = image_.size();
    if (size + page > next) return;  // nothing is gained
    const uint64_t shift = (next - size) / page * page;
    image_.resize(next - shift);
    uint64_t end = next;
    for (const Elf64_Phdr& load : loads_) end = std::max(end, load.p_offset + load.p_filesz);
    std::vector<Elf64_Shdr> sections = file_.sections();
    for (uint32_t i = 1; i < sections.size(); ++i)
      if (i != header_.e_shstrndx && sections[i].sh_type != SHT_NOBITS)
        end = std::max(end, sections[i].sh_offset + sections[i].sh_size);
    image_ += file_.bytes().substr(next, end - next);
    for (uint32_t i = 0; i < header_.e_phnum; ++i) {
      Elf64_Phdr& segment = segments_[i];
      if (segment.p_type == PT_LOAD && segment.p_offset == 0) segment.p_filesz = segment.p_memsz = size;
      if (segment.p_offset >= next) segment.p_offset -= shift;
      put_at(image_, header_.e_phoff + i * sizeof segment, segment);
    }
    for (uint32_t i = 1; i < sections.size(); ++i) {
      Elf64_Shdr& section = sections[i];
      if (const auto table = places_.find(i); table != places_.end()) {
        section.sh_addr = section.sh_offset = table->second;
        section.sh_size = tables_.at(i).size();
        if (section.sh_type == SHT_DYNSYM) section.sh_info = locals_;
      } else if (section.sh_type == SHT_HASH) {
        section = {};
      } else if (section.sh_offset >= next) {
        section.sh_offset -= shift;
      }
    }
    write_sections(sections);
    file_.bytes() = std::move(image_);
    file_.write();
  }

  void write_sections(std::vector<Elf64_Shdr>& sections) {
    std::string names = content(file_.sections().at(header_.e_shstrndx));
    if (!packed_.empty()) {
      Elf64_Shdr section{};
      section.sh_name = static_cast<uint32_t>(names.size());
      section.sh_type = SHT_RELR;
      section.sh_flags = SHF_ALLOC;
      section.sh_addr = section.sh_offset = packed_place_;
      section.sh_size = packed_size_;
      section.sh_addralign = section.sh_entsize = sizeof(Elf64_Relr);
      sections.push_back(section);
      names.append(kPackedSection, std::string(kPackedSection).size() + 1);
    }
    sections[header_.e_shstrndx].sh_size = names.size();
    sections[header_.e_shstrndx].sh_offset = place(names);
    header_.e_shnum = static_cast<uint16_t>(sections.size());
    header_.e_shoff = place(bytes_of(sections));
    put_at(image_, 0, header_);
  }

  File file_;
  const Names* names_;
  Elf64_Ehdr header_{};
  std::vector<Elf64_Phdr> segments_, loads_;
  std::vector<Elf64_Dyn> entries_;
  const Elf64_Shdr* dynamic_ = nullptr;
  const Elf64_Shdr* symbol_section_ = nullptr;
  const Elf64_Shdr* data_ = nullptr;        // relocations
  const Elf64_Shdr* calls_ = nullptr;       // those of calls by a table
  std::map<uint32_t, std::string> tables_;  // by the number of the section: what it becomes
  std::map<uint32_t, uint64_t> places_;     // where that goes
  uint64_t begin_ = 0;                      // of the tables
  bool binds_now_ = false;
  bool counts_ = false;  // says how many relocations are relative
  bool packs_ = false;
  std::vector<Elf64_Sym> symbols_;
  std::set<uint64_t> used_;  // symbols that relocations name
  std::vector<Elf64_Rela> data_left_, calls_left_;
  uint64_t relative_count_ = 0;
  std::vector<uint64_t> packed_;  // places that the base is added to
  uint64_t packed_place_ = 0, packed_size_ = 0;
  uint32_t locals_ = 1;
  Strings strings_;
  std::string image_;
};

}  // namespace

void compact_library(const std::string& path, const Names* names) { Compactor(path, names).run(); }

}  // namespace trl::bundle
