#include "engine/loader.h"

#include <dlfcn.h>

#include "base/error.h"
#include "base/files.h"
#include "engine/error_capture.h"
#include "engine/mapped_torch.h"

namespace trl::engine {

namespace {

std::string linker_message() {
  const char* text = ::dlerror();
  return text != nullptr ? text : "no reason given";
}

}  // namespace

std::string default_engine_path() {
  Dl_info info{};
  std::string own;
  if (::dladdr(reinterpret_cast<void*>(&default_engine_path), &info) != 0 && info.dli_fname != nullptr)
    own = info.dli_fname;
  const size_t slash = own.find_last_of('/');
  return base::join_path(slash == std::string::npos ? "." : own.substr(0, slash), "trl/libtrl_engine.so");
}

Engine& open_engine(Host& host, const std::string& path) {
  if (!base::file_exists(path)) {
    fail(Status::not_found,
         "{}: the engine library is not there; it belongs into the folder trl beside libtrl.so", path);
  }
  const bool shared = shares_mapped_torch(path);
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    fail(Status::unsupported, "the engine library cannot be opened: {}", linker_message());
  const auto entry = reinterpret_cast<EngineOpen>(::dlsym(library, kEngineOpenName));
  if (entry == nullptr) fail(Status::unsupported, "{}: has no function {}", path, kEngineOpenName);
  Engine* engine = nullptr;
  ErrorCapture error;
  error.check(entry(kInterfaceVersion, &host, shared ? 1 : 0, &engine, &error));
  return *engine;
}

}  // namespace trl::engine
