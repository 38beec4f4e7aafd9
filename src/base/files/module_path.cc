#include "base/files/module_path.h"

#include <dlfcn.h>

#include "base/files/files.h"

namespace trl::base {

std::string module_path(const char* file) {
  Dl_info info{};
  std::string own;
  if (::dladdr(reinterpret_cast<void*>(&module_path), &info) != 0 && info.dli_fname != nullptr)
    own = info.dli_fname;
  const size_t slash = own.find_last_of('/');
  const std::string folder = slash == std::string::npos ? "." : own.substr(0, slash);
  for (const char* place : {"trl", ".", "../lib/trl"}) {
    const std::string path = join_path(join_path(folder, place), file);
    if (file_exists(path)) return path;
  }
  return {};
}

void* module_entry(const std::string& path, const char* name, int more_flags) {
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | more_flags);
  if (library == nullptr) fail(Status::unsupported, "{} cannot be opened: {}", path, ::dlerror());
  return ::dlsym(library, name);
}

}  // namespace trl::base
