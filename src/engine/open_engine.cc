#include "engine/open_engine.h"

#include <dlfcn.h>

#include <atomic>

#include "base/error.h"
#include "base/files/files.h"
#include "base/threads/thread_pool.h"
#include "engine/error_capture.h"
#include "engine/mapped_torch.h"

namespace trl::engine {

namespace {

std::string linker_message() {
  const char* text = ::dlerror();
  return text != nullptr ? text : "no reason given";
}

bool has_other_onednn() {
  for (const char* name :
       {"dnnl_version", "dnnl_engine_create", "dnnl_memory_create", "dnnl_primitive_execute"}) {
    Dl_info info{};
    void* found = ::dlsym(RTLD_DEFAULT, name);
    if (found == nullptr) continue;
    if (::dladdr(found, &info) == 0 || info.dli_fname == nullptr) return true;
    if (!base::file_name(info.dli_fname).starts_with("libdnnl.so")) return true;
  }
  return false;
}

// Names that the whole process sees take precedence over those of the engine's libraries. Only if the host
// itself has oneDNN's names does the engine look into its own libraries first: that would bypass the host's
// own malloc or operator new, and AddressSanitizer ends a process that does it.
int scope() {
  const bool sanitized = ::dlsym(RTLD_DEFAULT, "__asan_init") != nullptr;
  return has_other_onednn() && !sanitized ? RTLD_LOCAL | RTLD_DEEPBIND : RTLD_LOCAL;
}

constexpr const char* kBlas = "libopenblas.so.0";

bool is_mapped(const char* library) {
  void* const handle = ::dlopen(library, RTLD_NOW | RTLD_NOLOAD);
  if (handle != nullptr) ::dlclose(handle);
  return handle != nullptr;
}

std::atomic<bool> host_has_blas{true};

}  // namespace

void end_blas_threads() noexcept {
  if (host_has_blas) return;
  void* const blas = ::dlopen(kBlas, RTLD_NOW | RTLD_NOLOAD);
  if (blas == nullptr) return;
  if (const auto end = reinterpret_cast<int (*)()>(::dlsym(blas, "blas_thread_shutdown_"))) end();
  ::dlclose(blas);
}

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
         "{}: the engine library is missing; it belongs in the folder trl next to libtrl.so", path);
  }
  const bool shared = shares_mapped_torch(path);
  host_has_blas = is_mapped(kBlas);
  const base::StartingThreads quiet("trl-blas");
  void* library = ::dlopen(path.c_str(), RTLD_NOW | scope());
  if (library == nullptr)
    fail(Status::unsupported, "the engine library cannot be opened: {}", linker_message());
  end_blas_threads();
  const auto entry = reinterpret_cast<EngineOpen>(::dlsym(library, kEngineOpenName));
  if (entry == nullptr)
    fail(Status::unsupported, "{}: it does not export the function {}", path, kEngineOpenName);
  Engine* engine = nullptr;
  ErrorCapture error;
  error.check(entry(kInterfaceVersion, &host, shared ? 1 : 0, &engine, &error));
  return *engine;
}

}  // namespace trl::engine
