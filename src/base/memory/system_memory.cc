#include "base/memory/system_memory.h"

#include <link.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <limits>

#include "base/error.h"
#include "base/files/files.h"
#include "base/text/number.h"

namespace trl::base {

namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

std::string text_of(const std::string& path) {
  try {
    return read_file(path);
  } catch (const Error&) {
    return {};
  }
}

// Looks at the directories of a group and of all groups above it.
void look_up(const std::string& mount, std::string group,
             const std::function<void(const std::string&)>& look) {
  look(mount);
  while (!group.empty() && group != "/") {
    look(mount + group);
    group.erase(group.rfind('/'));
  }
}

// Returns the limit less the usage. Version 2 writes "max" for no limit, version 1 a number near 2^63 (Linux
// Documentation/admin-guide/cgroup-v1/memory.rst).
int64_t left_in(const std::string& directory, const char* limit, const char* usage) {
  constexpr int64_t kLargest = int64_t{1} << 60;
  const auto most = parse_int64(first_line(join_path(directory, limit)));
  if (!most || *most < 0 || *most >= kLargest) return kUnlimited;
  return *most - std::max<int64_t>(0, parse_int64(first_line(join_path(directory, usage))).value_or(0));
}

// Returns whether the loader wrote into pages that are mapped read-only.
bool has_text_relocations(const dl_phdr_info& library) {
  for (int i = 0; i < library.dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = library.dlpi_phdr[i];
    if (part.p_type != PT_DYNAMIC) continue;
    const auto* entry = reinterpret_cast<const ElfW(Dyn)*>(library.dlpi_addr + part.p_vaddr);
    for (; entry->d_tag != DT_NULL; ++entry)
      if (entry->d_tag == DT_TEXTREL || (entry->d_tag == DT_FLAGS && (entry->d_un.d_val & DF_TEXTREL) != 0))
        return true;
  }
  return false;
}

int drop_read_only(dl_phdr_info* library, size_t, void*) {
  const bool named = library->dlpi_name != nullptr && library->dlpi_name[0] == '/';
  if (!named || has_text_relocations(*library)) return 0;  // the program itself and the kernel's page
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  for (int i = 0; i < library->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = library->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_W) != 0) continue;
    const uintptr_t start = library->dlpi_addr + part.p_vaddr;
    const uintptr_t begin = (start + page - 1) / page * page, end = (start + part.p_memsz) / page * page;
    if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }
  return 0;
}

}  // namespace

int64_t resident_bytes() noexcept {
  std::FILE* const file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr) return 0;
  long long size = 0, resident = 0;
  const int read = std::fscanf(file, "%lld %lld", &size, &resident);
  std::fclose(file);
  return read == 2 ? resident * static_cast<int64_t>(sysconf(_SC_PAGESIZE)) : 0;
}

int64_t peak_resident_bytes() noexcept {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{1024} * usage.ru_maxrss;
}

std::string own_cgroups() { return text_of("/proc/self/cgroup"); }

std::string first_line(const std::string& path) {
  const std::string text = text_of(path);
  return text.substr(0, text.find('\n'));
}

void each_cgroup(std::string_view groups, const std::string& mounts, std::string_view controller,
                 const std::function<void(const std::string& directory)>& look) {
  for (size_t begin = 0; begin < groups.size();) {
    const size_t end = std::min(groups.find('\n', begin), groups.size());
    const std::string_view line = groups.substr(begin, end - begin);
    begin = end + 1;
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string_view::npos || line.substr(second + 1, 1) != "/") continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    const std::string group(line.substr(second + 1));
    if (controllers.empty()) look_up(mounts, group, look);
    if (fmt::format(",{},", controllers).find(fmt::format(",{},", controller)) != std::string::npos)
      look_up(join_path(mounts, controller), group, look);
  }
}

int64_t cgroup_memory(std::string_view groups, const std::string& mounts) {
  int64_t left = kUnlimited;
  each_cgroup(groups, mounts, "memory", [&](const std::string& directory) {
    left = std::min({left, left_in(directory, "memory.max", "memory.current"),
                     left_in(directory, "memory.limit_in_bytes", "memory.usage_in_bytes")});
  });
  return left;
}

void give_back_heap() noexcept { malloc_trim(0); }

void give_back_pages() noexcept {
  give_back_heap();
  dl_iterate_phdr(&drop_read_only, nullptr);
}

}  // namespace trl::base
