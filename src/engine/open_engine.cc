#include "engine/open_engine.h"

#include <dlfcn.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>

#include "base/error.h"
#include "base/files/files.h"
#include "base/threads/thread_pool.h"
#include "engine/blas.h"
#include "engine/error_capture.h"
#include "engine/mapped_torch.h"

namespace trl::engine {

namespace {

constexpr std::string_view kEngineFile = "trl/libtrl_engine.so";  // in the folder of libtrl.so

std::string linker_message() {
  const char* text = ::dlerror();
  return text != nullptr ? text : "no reason given";
}

// Names of oneDNN and of libtorch that every version has.
constexpr const char* kOneDnn[] = {"dnnl_version", "dnnl_engine_create", "dnnl_memory_create",
                                   "dnnl_primitive_execute"};
constexpr const char* kTorch = "_ZTVN3c105ErrorE";  // the virtual table of c10::Error

// Whether the whole process sees the name, in a file whose name does not begin with `own`.
bool host_has(const char* name, const char* own) {
  Dl_info info{};
  void* const found = ::dlsym(RTLD_DEFAULT, name);
  if (found == nullptr) return false;
  if (own == nullptr || ::dladdr(found, &info) == 0 || info.dli_fname == nullptr) return true;
  return !base::file_name(info.dli_fname).starts_with(own);
}

bool host_has_names(bool bundled) {
  if (bundled && host_has(kTorch, nullptr)) return true;
  return std::ranges::any_of(
      kOneDnn, [&](const char* name) { return host_has(name, bundled ? nullptr : "libdnnl.so"); });
}

// Names that the whole process sees take precedence over those of the engine's libraries. Only if the host
// itself has names of oneDNN, or beside a bundle of libtorch, does the engine look into its own libraries
// first: that would bypass the host's own malloc or operator new, and AddressSanitizer ends a process that
// does it.
int scope(bool bundled) {
  const bool sanitized = ::dlsym(RTLD_DEFAULT, "__asan_init") != nullptr;
  return host_has_names(bundled) && !sanitized ? RTLD_LOCAL | RTLD_DEEPBIND : RTLD_LOCAL;
}

// Debian's libtorch, whose name has its version, uses OpenBLAS as a rule; a bundle has what it uses.
bool loads_openblas(const std::string& engine_path, const std::string& blas, const ElfNeeds& needs,
                    bool bundled) {
  if (bundled) return base::file_exists(base::join_path(engine_path.substr(0, engine_path.rfind('/')), blas));
  return std::ranges::any_of(needs.libraries,
                             [](const std::string& need) { return need.starts_with("libtorch_cpu.so."); });
}

bool has_address_limit() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

std::atomic<const std::string*> own_blas{nullptr};  // nullptr: the host's, or not yet known

bool is_engine(std::string_view path) { return base::file_name(path) == base::file_name(kEngineFile); }

// Whether the engine of another copy of libtrl computes with the same OpenBLAS.
bool is_shared(const std::string& blas) {
  const std::vector<std::string> engines = mapped_libraries(is_engine);
  return std::ranges::count_if(engines, [&](const std::string& path) { return blas_beside(path) == blas; }) >
         1;
}

}  // namespace

void end_blas_threads() noexcept try {
  const std::string* const name = own_blas;
  if (name == nullptr || is_shared(*name)) return;
  void* const blas = ::dlopen(name->c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (blas == nullptr) return;
  if (const auto end = reinterpret_cast<int (*)()>(::dlsym(blas, "blas_thread_shutdown_"))) end();
  ::dlclose(blas);
} catch (const std::bad_alloc&) {  // they stay
}

std::string default_engine_path() {
  Dl_info info{};
  std::string own;
  if (::dladdr(reinterpret_cast<void*>(&default_engine_path), &info) != 0 && info.dli_fname != nullptr)
    own = info.dli_fname;
  const size_t slash = own.find_last_of('/');
  return base::join_path(slash == std::string::npos ? "." : own.substr(0, slash), std::string(kEngineFile));
}

Engine& open_engine(Host& host, const std::string& path) {
  if (!base::file_exists(path)) {
    fail(Status::not_found,
         "{}: the engine library is missing; it belongs in the folder trl next to libtrl.so", path);
  }
  const ElfNeeds needs = read_elf_needs(path);
  const bool bundled = has_bundled_torch(needs);
  const bool shared = !bundled && shares_mapped_torch(path, needs);
  static const std::string blas = blas_beside(path);
  own_blas = is_mapped(blas) ? nullptr : &blas;
  need_address_space(has_address_limit() ? sizes_to_map(needs) : std::vector<size_t>(),
                     own_blas != nullptr && loads_openblas(path, blas, needs, bundled));
  const base::StartingThreads quiet("trl-blas");
  void* library = ::dlopen(path.c_str(), RTLD_NOW | scope(bundled));
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
