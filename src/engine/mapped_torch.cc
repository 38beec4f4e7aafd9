#include "engine/mapped_torch.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/stat.h>
#include <algorithm>
#include <cstring>
#include <deque>
#include <exception>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <vector>

#include "base/error.h"
#include "base/files/files.h"

namespace trl::engine {

namespace {

// Accepts libtorch_cpu.so and libtorch_cpu.so.1.13, but not libtorch_cpu_extra.so.
bool is_torch(std::string_view path) {
  const std::string name = base::file_name(path);
  for (const std::string_view stem : {"libtorch_cpu.so", "libtorch.so", "libc10.so"})
    if (name.starts_with(stem) && (name.size() == stem.size() || name[stem.size()] == '.')) return true;
  return false;
}

struct FileIdentity {
  dev_t device;
  ino_t inode;
  bool operator==(const FileIdentity&) const = default;
};

std::optional<FileIdentity> identity(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return std::nullopt;
  return FileIdentity{info.st_dev, info.st_ino};
}

// The directories that the dynamic linker searches for this library (LD_LIBRARY_PATH and the system's
// included).
std::vector<std::string> linker_directories() {
  std::vector<std::string> directories;
  void* self = ::dlopen(nullptr, RTLD_NOW | RTLD_NOLOAD);
  Dl_serinfo size{};
  if (self == nullptr || ::dlinfo(self, RTLD_DI_SERINFOSIZE, &size) != 0) return directories;
  std::vector<char> buffer(size.dls_size);
  auto* list = reinterpret_cast<Dl_serinfo*>(buffer.data());
  if (::dlinfo(self, RTLD_DI_SERINFOSIZE, list) == 0 && ::dlinfo(self, RTLD_DI_SERINFO, list) == 0)
    for (unsigned i = 0; i < list->dls_cnt; ++i) directories.push_back(list->dls_serpath[i].dls_name);
  return directories;
}

// Returns the file of a library in the first of these directories that has one, or "".
std::string find_library(const std::string& library, const std::vector<std::string>& directories) {
  for (const std::string& directory : directories)
    if (std::string path = base::join_path(directory, library); base::file_exists(path)) return path;
  return {};
}

std::vector<std::string> joined(std::vector<std::string> first, const std::vector<std::string>& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

// The files that the engine's references to libtorch resolve to in a fresh process.
std::vector<std::string> own_torch_libraries(const ElfNeeds& needs) {
  const std::vector<std::string> directories = joined(needs.directories, linker_directories());
  std::vector<std::string> files;
  for (const std::string& library : needs.libraries)
    if (is_torch(library))
      if (std::string path = find_library(library, directories); !path.empty()) files.push_back(path);
  return files;
}

std::string python_version(const std::string& version_py) {
  const std::string text = base::read_file(version_py);
  const size_t name = text.find("\n__version__");
  const size_t open = name == std::string::npos ? name : text.find_first_of("'\"", name);
  const size_t close = open == std::string::npos ? open : text.find(text[open], open + 1);
  return close == std::string::npos ? "unknown" : text.substr(open + 1, close - open - 1);
}

class Elf {
 public:
  explicit Elf(const std::string& path)
      : path_(path), file_(path, std::ios::binary), header_(read<ElfW(Ehdr)>(0)) {
    constexpr unsigned char kClass = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
    if (std::memcmp(header_.e_ident, ELFMAG, SELFMAG) != 0 || header_.e_ident[EI_CLASS] != kClass)
      fail(Status::format, "{}: not a shared library of this machine", path);
    for (size_t i = 0; i < header_.e_phnum; ++i)
      segments_.push_back(read<ElfW(Phdr)>(header_.e_phoff + i * sizeof(ElfW(Phdr))));
  }

  ElfNeeds needs() {
    ElfNeeds needs;
    std::vector<ElfW(Dyn)> entries = dynamic_entries();
    size_t strings = 0;
    for (const auto& entry : entries)
      if (entry.d_tag == DT_STRTAB) strings = offset_of(entry.d_un.d_ptr);
    for (const auto& entry : entries) {
      if (entry.d_tag == DT_NEEDED) needs.libraries.push_back(text(strings + entry.d_un.d_val));
      if (entry.d_tag == DT_RUNPATH || entry.d_tag == DT_RPATH)
        add_directories(text(strings + entry.d_un.d_val), needs);
    }
    for (const auto& segment : segments_)
      if (segment.p_type == PT_LOAD)
        needs.mapped = std::max<size_t>(needs.mapped, segment.p_vaddr + segment.p_memsz + segment.p_align);
    return needs;
  }

 private:
  template <typename T>
  T read(size_t offset) {
    T value;
    file_.seekg(static_cast<std::streamoff>(offset));
    if (!file_.read(reinterpret_cast<char*>(&value), sizeof value)) fail_truncated();
    return value;
  }

  std::string text(size_t offset) {
    std::string value;
    file_.seekg(static_cast<std::streamoff>(offset));
    if (!std::getline(file_, value, '\0') || file_.eof()) fail_truncated();
    return value;
  }

  [[noreturn]] void fail_truncated() const { fail(Status::format, "{}: truncated", path_); }

  std::vector<ElfW(Dyn)> dynamic_entries() {
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
    for (const auto& segment : segments_)
      if (segment.p_type == PT_LOAD && address >= segment.p_vaddr &&
          address - segment.p_vaddr < segment.p_filesz)
        return segment.p_offset + (address - segment.p_vaddr);
    fail(Status::format, "{}: its string table is in no segment", path_);
  }

  void add_directories(const std::string& list, ElfNeeds& needs) const {
    const std::string origin = path_.substr(0, path_.find_last_of('/'));
    for (size_t begin = 0; begin <= list.size();) {
      const size_t end = std::min(list.find(':', begin), list.size());
      std::string directory = list.substr(begin, end - begin);
      for (const std::string_view name : {"$ORIGIN", "${ORIGIN}"})
        if (directory.starts_with(name)) directory.replace(0, name.size(), origin);
      if (!directory.empty()) needs.directories.push_back(directory);
      begin = end + 1;
    }
  }

  const std::string path_;
  std::ifstream file_;  // not a map of it: there may be no address space for one
  const ElfW(Ehdr) header_;
  std::vector<ElfW(Phdr)> segments_;
};

}  // namespace

std::vector<std::string> mapped_libraries(bool (*wanted)(std::string_view path)) {
  struct Found {
    bool (*wanted)(std::string_view path);
    std::vector<std::string> names;
    std::exception_ptr error;  // must not pass through dl_iterate_phdr
  } found{wanted, {}, {}};
  const auto visit = [](dl_phdr_info* info, size_t, void* data) -> int {
    Found& out = *static_cast<Found*>(data);
    try {
      if (info->dlpi_name != nullptr && out.wanted(info->dlpi_name)) out.names.push_back(info->dlpi_name);
    } catch (...) {
      out.error = std::current_exception();
    }
    return out.error ? 1 : 0;
  };
  ::dl_iterate_phdr(visit, &found);
  if (found.error) std::rethrow_exception(found.error);
  return found.names;
}

std::string torch_version_of(const std::string& library_path) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(library_path, error);
  const std::string path = error ? library_path : real.string();
  const std::string name = base::file_name(path);
  const size_t suffix = name.find(".so.");
  if (suffix != std::string::npos) return name.substr(suffix + 4);
  const std::string version_py =
      (std::filesystem::path(path).parent_path().parent_path() / "version.py").string();
  return base::file_exists(version_py) ? python_version(version_py) : "unknown";
}

bool has_bundled_torch(const ElfNeeds& needs) { return std::ranges::none_of(needs.libraries, is_torch); }

bool shares_mapped_torch(const std::string& engine_path, const ElfNeeds& needs) {
  const std::vector<std::string> mapped = mapped_libraries(is_torch);
  if (mapped.empty()) return false;
  const std::vector<std::string> own = own_torch_libraries(needs);
  const auto is_own = [&](const std::string& library) {
    const std::optional<FileIdentity> file = identity(library);
    return file && std::ranges::any_of(own, [&](const std::string& path) { return identity(path) == file; });
  };
  for (const std::string& library : mapped) {
    // libtorch.so holds no code: its neighbours decide.
    if (is_own(library) || base::file_name(library).starts_with("libtorch.so")) continue;
    const std::string wanted = own.empty() ? "not found" : own.front();
    fail(
        Status::unsupported,
        "this process already holds another libtorch: version {} at {}; the engine {} needs version {} at {}",
        torch_version_of(library), library, engine_path, own.empty() ? "unknown" : torch_version_of(wanted),
        wanted);
  }
  return true;
}

bool is_mapped(const std::string& library) {
  void* const handle = ::dlopen(library.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (handle != nullptr) ::dlclose(handle);
  return handle != nullptr;
}

std::vector<size_t> sizes_to_map(const ElfNeeds& engine) {
  const std::vector<std::string> inherited = joined(engine.directories, linker_directories());
  std::vector<size_t> sizes{engine.mapped};
  std::set<std::string> seen;
  std::deque<ElfNeeds> left{engine};
  for (; !left.empty(); left.pop_front()) {
    for (const std::string& library : left.front().libraries) {
      if (!seen.insert(library).second || is_mapped(library)) continue;
      const std::string path = find_library(library, joined(left.front().directories, inherited));
      if (path.empty()) continue;  // the dynamic linker finds it elsewhere, or says that there is none
      left.push_back(read_elf_needs(path));
      sizes.push_back(left.back().mapped);
    }
  }
  return sizes;
}

ElfNeeds read_elf_needs(const std::string& path) { return Elf(path).needs(); }

}  // namespace trl::engine
