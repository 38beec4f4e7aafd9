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

bool Loader::opened() {
  const std::lock_guard lock(mutex_);
  return engine_ != nullptr;
}

Engine& Loader::open(Host& host) {
  const std::lock_guard lock(mutex_);
  if (engine_ != nullptr) return *engine_;
  if (!base::file_exists(path_)) {
    fail(Status::not_found,
         "{}: the engine library is not there; it belongs into the folder trl beside libtrl.so", path_);
  }
  const bool shared = shares_mapped_torch(path_);
  void* library = ::dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    fail(Status::unsupported, "the engine library cannot be opened: {}", linker_message());
  const auto entry = reinterpret_cast<EngineOpen>(::dlsym(library, kEngineOpenName));
  if (entry == nullptr) fail(Status::unsupported, "{}: has no {}", path_, kEngineOpenName);
  Engine* engine = nullptr;
  ErrorCapture error;
  error.check(entry(kInterfaceVersion, &host, shared ? 1 : 0, &engine, &error));
  engine_ = engine;
  return *engine_;
}

}  // namespace trl::engine
