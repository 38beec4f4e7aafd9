#include "run/server/http_module.h"

#include <dlfcn.h>

#include <string>

#include "base/error.h"
#include "base/files/module_path.h"

namespace trl::run {

namespace {

const http::Module& open_module() {
  const std::string path = base::module_path(http::kModuleFile);
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
