#include "bundle/elf.h"

#include <cstddef>
#include <map>
#include <sstream>

#include "bundle/elf_file.h"

namespace trl::bundle {

namespace {

std::map<uint16_t, std::string> version_names(const File& file) {
  std::map<uint16_t, std::string> names;
  each_version_need(
      file, [](const Elf64_Shdr&, uint64_t) {},
      [&](const Elf64_Shdr& section, uint64_t at) {
        const auto version = file.at<Elf64_Vernaux>(at);
        names[version.vna_other & ~kHiddenVersion] = file.text(section, version.vna_name);
      });
  each_version_definition(
      file, [&](const Elf64_Shdr& section, const Elf64_Verdef& version, uint32_t name, bool own) {
        if (own && (version.vd_flags & VER_FLG_BASE) == 0)
          names[version.vd_ndx & ~kHiddenVersion] = file.text(section, name);
      });
  return names;
}

class Editor {
 public:
  Editor(const std::string& path, const Changes& changes) : file_(path), changes_(changes) {
    dynamic_ = file_.section(SHT_DYNAMIC);
    if (dynamic_ == nullptr) file_.fail("not dynamically linked");
    strings_ = file_.strings_of(*dynamic_).sh_offset;
  }

  void edit() {
    find_room();
    for (const std::string& name : changes_.added) place(name);
    edit_versions();
    edit_dynamic();
    for (const auto& [offset, name] : renamed_) {
      if (offset != 0 && file_.at<char>(strings_ + offset - 1) != '\0')
        file_.fail(name + ": its name is part of another string");
      file_.bytes().replace(strings_ + offset, name.size(), name);
    }
    edit_symbols();
    file_.write();
  }

 private:
  struct Room {
    uint64_t offset;
    uint64_t size;  // with the byte that ends it
  };

  bool goes(const Elf64_Dyn& entry) const {
    if (entry.d_tag == DT_RUNPATH || entry.d_tag == DT_RPATH) return changes_.inherits_path;
    return entry.d_tag == DT_NEEDED && changes_.removed.contains(file_.text(*dynamic_, entry.d_un.d_val));
  }

  // Finds the entries of the dynamic section that stay, and the room of strings that only removed entries
  // used.
  void find_room() {
    std::set<uint64_t> freed;
    for (uint64_t at = 0; at < dynamic_->sh_size; at += sizeof(Elf64_Dyn)) {
      const auto entry = file_.at<Elf64_Dyn>(dynamic_->sh_offset + at);
      if (entry.d_tag == DT_NULL) break;
      const bool going = goes(entry);
      if (!going) kept_.push_back(entry);
      if (is_text(entry.d_tag)) (going ? freed : used_).insert(entry.d_un.d_val);
    }
    each_version_need(
        file_,
        [&](const Elf64_Shdr& section, uint64_t at) {
          const auto need = file_.at<Elf64_Verneed>(at);
          if (!changes_.removed.contains(file_.text(section, need.vn_file))) used_.insert(need.vn_file);
        },
        [&](const Elf64_Shdr&, uint64_t at) { used_.insert(file_.at<Elf64_Vernaux>(at).vna_name); });
    each_version_definition(
        file_, [&](const Elf64_Shdr&, const Elf64_Verdef&, uint32_t name, bool) { used_.insert(name); });
    if (const Elf64_Shdr* symbols = file_.section(SHT_DYNSYM))
      for (uint64_t at = 0; at < symbols->sh_size; at += sizeof(Elf64_Sym))
        used_.insert(file_.at<Elf64_Sym>(symbols->sh_offset + at).st_name);
    for (const uint64_t offset : freed) {
      const uint64_t size = file_.text(*dynamic_, offset).size() + 1;
      if (used_.contains(offset) || is_shared(offset, size)) continue;
      room_.push_back({offset, size});
    }
  }

  // Whether the string is part of another one, or one begins within it.
  bool is_shared(uint64_t offset, uint64_t size) const {
    const auto next = used_.upper_bound(offset);
    return (next != used_.end() && *next < offset + size) ||
           (offset != 0 && file_.at<char>(strings_ + offset - 1) != '\0');
  }

  // Returns the offset of the name among the strings, in the smallest room that holds it.
  uint64_t place(const std::string& name) {
    if (const auto known = placed_.find(name); known != placed_.end()) return known->second;
    Room* best = nullptr;
    for (Room& room : room_)
      if (room.size > name.size() && (best == nullptr || room.size < best->size)) best = &room;
    if (best == nullptr) file_.fail("no room for the name " + name);
    const uint64_t offset = best->offset;
    file_.bytes().replace(strings_ + offset, name.size() + 1, name.c_str(), name.size() + 1);
    best->offset += name.size() + 1;
    best->size -= name.size() + 1;
    return placed_[name] = offset;
  }

  void rename(uint64_t offset, const std::string& name) {
    const auto found = changes_.names.find(name);
    if (found == changes_.names.end()) return;
    if (found->second.size() != name.size()) file_.fail(found->second + ": not as long as " + name);
    renamed_[offset] = found->second;
  }

  void edit_versions() {
    std::vector<std::pair<uint64_t, std::string>>
        needs;  // entries that name a library, before strings change
    each_version_need(
        file_,
        [&](const Elf64_Shdr& section, uint64_t at) {
          needs.emplace_back(at, file_.text(section, file_.at<Elf64_Verneed>(at).vn_file));
        },
        [](const Elf64_Shdr&, uint64_t) {});
    for (const auto& [at, name] : needs) {
      auto need = file_.at<Elf64_Verneed>(at);
      if (!changes_.removed.contains(name)) {
        rename(need.vn_file, name);
        continue;
      }
      need.vn_file = static_cast<uint32_t>(place(changes_.stand_in));
      file_.put(at, need);
    }
  }

  void edit_dynamic() {
    std::vector<Elf64_Dyn> all;
    for (const std::string& name : changes_.added) {
      Elf64_Dyn entry{};
      entry.d_tag = DT_NEEDED;
      entry.d_un.d_val = place(name);
      all.push_back(entry);
    }
    for (Elf64_Dyn entry : kept_) {
      if (entry.d_tag == DT_NEEDED || entry.d_tag == DT_SONAME)
        rename(entry.d_un.d_val, file_.text(*dynamic_, entry.d_un.d_val));
      if (entry.d_tag == DT_RUNPATH) entry.d_tag = DT_RPATH;
      if (entry.d_tag == DT_RPATH) keep_own_folders(entry.d_un.d_val);
      all.push_back(entry);
    }
    const uint64_t room = dynamic_->sh_size / sizeof(Elf64_Dyn);
    if (all.size() >= room) file_.fail("no room for another need");
    all.resize(room);
    for (size_t i = 0; i < all.size(); ++i) file_.put(dynamic_->sh_offset + i * sizeof(Elf64_Dyn), all[i]);
  }

  // Keeps the folders of a list that are relative to the library: others belong to the machine that built
  // it.
  void keep_own_folders(uint64_t offset) {
    const std::string before = file_.text(*dynamic_, offset);
    std::string after;
    std::istringstream list(before);
    for (std::string folder; std::getline(list, folder, ':');)
      if (folder.starts_with("$ORIGIN")) after += (after.empty() ? "" : ":") + folder;
    if (after == before) return;
    if (is_shared(offset, before.size() + 1)) file_.fail("its list of folders is part of another string");
    after.resize(before.size());
    file_.bytes().replace(strings_ + offset, after.size(), after);
  }

  void edit_symbols() {
    const Elf64_Shdr* symbols = file_.section(SHT_DYNSYM);
    if (symbols == nullptr) return;
    for (uint64_t at = symbols->sh_offset; at < symbols->sh_offset + symbols->sh_size;
         at += sizeof(Elf64_Sym)) {
      auto symbol = file_.at<Elf64_Sym>(at);
      if (ELF64_ST_BIND(symbol.st_info) != STB_GNU_UNIQUE) continue;
      symbol.st_info = static_cast<unsigned char>(ELF64_ST_INFO(STB_WEAK, ELF64_ST_TYPE(symbol.st_info)));
      file_.put(at, symbol);
    }
  }

  File file_;
  const Changes& changes_;
  const Elf64_Shdr* dynamic_ = nullptr;
  uint64_t strings_ = 0;
  std::vector<Elf64_Dyn> kept_;
  std::set<uint64_t> used_;  // offsets of strings that something else names
  std::vector<Room> room_;
  std::map<std::string, uint64_t> placed_;
  std::map<uint64_t, std::string> renamed_;  // applied last, so that names can be read until then
};

}  // namespace

Library read_library(const std::string& name, const std::string& path) {
  const File file(path);
  Library library{.name = name, .path = path, .needs = {}, .versioned_needs = {}, .symbols = {}};
  if (const Elf64_Shdr* dynamic = file.section(SHT_DYNAMIC)) {
    for (uint64_t at = 0; at < dynamic->sh_size; at += sizeof(Elf64_Dyn)) {
      const auto entry = file.at<Elf64_Dyn>(dynamic->sh_offset + at);
      if (entry.d_tag == DT_NULL) break;
      if (entry.d_tag == DT_NEEDED) library.needs.push_back(file.text(*dynamic, entry.d_un.d_val));
    }
  }
  each_version_need(
      file,
      [&](const Elf64_Shdr& section, uint64_t at) {
        library.versioned_needs.push_back(file.text(section, file.at<Elf64_Verneed>(at).vn_file));
      },
      [](const Elf64_Shdr&, uint64_t) {});
  const std::map<uint16_t, std::string> names = version_names(file);
  const Elf64_Shdr* symbols = file.section(SHT_DYNSYM);
  if (symbols == nullptr) return library;
  const Elf64_Shdr* numbers = file.section(SHT_GNU_versym);
  for (uint64_t i = 1; i < symbols->sh_size / sizeof(Elf64_Sym); ++i) {
    const auto entry = file.at<Elf64_Sym>(symbols->sh_offset + i * sizeof(Elf64_Sym));
    const int binding = ELF64_ST_BIND(entry.st_info);
    if (binding == STB_LOCAL) continue;
    Symbol symbol;
    symbol.name = file.text(*symbols, entry.st_name);
    symbol.defined = entry.st_shndx != SHN_UNDEF;
    symbol.required = !symbol.defined && binding != STB_WEAK;
    symbol.type = ELF64_ST_TYPE(entry.st_info);
    symbol.size = entry.st_size;
    const uint16_t number = numbers == nullptr ? uint16_t{VER_NDX_GLOBAL}
                                               : file.at<uint16_t>(numbers->sh_offset + i * sizeof(uint16_t));
    symbol.chosen_only = symbol.defined && (number & kHiddenVersion) != 0;
    if (const auto found = names.find(number & ~kHiddenVersion); found != names.end())
      symbol.version = found->second;
    if ((number & ~kHiddenVersion) != VER_NDX_LOCAL || !symbol.defined)
      library.symbols.push_back(std::move(symbol));
  }
  return library;
}

void change_library(const std::string& path, const Changes& changes) { Editor(path, changes).edit(); }

}  // namespace trl::bundle
