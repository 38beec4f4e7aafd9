#include "base/memory/pages.h"

#include <link.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace trl::base {

namespace {

// Returns whether the loader wrote into pages that are mapped read-only.
bool has_text_relocations(const dl_phdr_info& library) {
  for (int i = 0; i < library.dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = library.dlpi_phdr[i];
    if (part.p_type != PT_DYNAMIC) continue;
    const auto* entry = reinterpret_cast<const ElfW(Dyn)*>(library.dlpi_addr + part.p_vaddr);
    for (; entry->d_tag != DT_NULL; ++entry) {
      if (entry->d_tag == DT_TEXTREL || (entry->d_tag == DT_FLAGS && (entry->d_un.d_val & DF_TEXTREL) != 0))
        return true;
    }
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

void give_back_heap() noexcept { malloc_trim(0); }

void give_back_pages() noexcept {
  give_back_heap();
  dl_iterate_phdr(&drop_read_only, nullptr);
}

}  // namespace trl::base
