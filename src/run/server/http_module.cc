#include "run/server/http_module.h"

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
  return base::open_module<http::Module>(path, http::kEntryName, http::kModuleVersion);
}

}  // namespace

const http::Module& http_module() {
  static const http::Module& module = open_module();  // tried again after a failure
  return module;
}

}  // namespace trl::run
