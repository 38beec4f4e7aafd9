#include "run/server/http_module.h"

#include <dlfcn.h>

#include <string>

#include "base/error.h"
#include "base/files/files.h"

namespace trl::run {

namespace {

// Returns where the module lies: beside the library or program that this function is in. Empty: nowhere.
std::string module_path() {
  Dl_info info{};
  std::string own;
  if (::dladdr(reinterpret_cast<void*>(&module_path), &info) != 0 && info.dli_fname != nullptr)
    own = info.dli_fname;
  const size_t slash = own.find_last_of('/');
  const std::string folder = slash == std::string::npos ? "." : own.substr(0, slash);
  for (const char* place : {"trl", ".", "../lib/trl"}) {
    const std::string path = base::join_path(base::join_path(folder, place), http::kModuleFile);
    if (base::file_exists(path)) return path;
  }
  return {};
}

const http::Module& open_module() {
  const std::string path = module_path();
  if (path.empty())
    fail(Status::unsupported,
         "vllm_mode: server needs {}, which this build lacks: it is made where libcurl's development files "
         "are installed",
         http::kModuleFile);
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fail(Status::unsupported, "{} cannot be opened: {}", path, ::dlerror());
  const auto entry = reinterpret_cast<http::Entry>(::dlsym(library, http::kEntryName));
  const http::Module* module = entry != nullptr ? entry() : nullptr;
  if (module == nullptr || module->version != http::kModuleVersion)
    fail(Status::unsupported, "{}: it belongs to another build", path);
  return *module;
}

}  // namespace

const http::Module& http_module() {
  static const http::Module& module = open_module();  // tried again after a failure
  return module;
}

}  // namespace trl::run
