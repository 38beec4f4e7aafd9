#include "engine/mapped_torch.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/stat.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/files/files.h"
#include "engine/elf_needs.h"

namespace trl::engine {

namespace {

// Accepts libtorch_cpu.so and libtorch_cpu.so.1.13, but not libtorch_cpu_extra.so.
bool is_torch(std::string_view path) {
  const std::string name = base::file_name(path);
  for (const std::string_view stem : {"libtorch_cpu.so", "libtorch.so", "libc10.so"}) {
    if (name.starts_with(stem) && (name.size() == stem.size() || name[stem.size()] == '.')) return true;
  }
  return false;
}

struct FileIdentity {
  dev_t device;
  ino_t inode;
  bool operator==(const FileIdentity&) const = default;
};

std::optional<FileIdentity> identity(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return std::nullopt;
  return FileIdentity{info.st_dev, info.st_ino};
}

std::vector<std::string> mapped_torch_libraries() {
  struct Found {
    std::vector<std::string> names;
    std::exception_ptr error;  // must not pass through dl_iterate_phdr
  } found;
  const auto visit = [](dl_phdr_info* info, size_t, void* data) -> int {
    Found& out = *static_cast<Found*>(data);
    try {
      if (info->dlpi_name != nullptr && is_torch(info->dlpi_name)) out.names.push_back(info->dlpi_name);
    } catch (...) {
      out.error = std::current_exception();
    }
    return out.error ? 1 : 0;
  };
  ::dl_iterate_phdr(visit, &found);
  if (found.error) std::rethrow_exception(found.error);
  return found.names;
}

// The directories that the dynamic linker searches for this library (LD_LIBRARY_PATH and the system's
// included).
std::vector<std::string> linker_directories() {
  std::vector<std::string> directories;
  void* self = ::dlopen(nullptr, RTLD_NOW | RTLD_NOLOAD);
  Dl_serinfo size{};
  if (self == nullptr || ::dlinfo(self, RTLD_DI_SERINFOSIZE, &size) != 0) return directories;
  std::vector<char> buffer(size.dls_size);
  auto* list = reinterpret_cast<Dl_serinfo*>(buffer.data());
  if (::dlinfo(self, RTLD_DI_SERINFOSIZE, list) == 0 && ::dlinfo(self, RTLD_DI_SERINFO, list) == 0) {
    for (unsigned i = 0; i < list->dls_cnt; ++i) directories.push_back(list->dls_serpath[i].dls_name);
  }
  return directories;
}

// The files that the engine's references to libtorch resolve to in a fresh process.
std::vector<std::string> own_torch_libraries(const std::string& engine_path) {
  const ElfNeeds needs = read_elf_needs(engine_path);
  std::vector<std::string> directories = needs.directories;
  for (std::string& directory : linker_directories()) directories.push_back(std::move(directory));
  std::vector<std::string> files;
  for (const std::string& library : needs.libraries) {
    if (!is_torch(library)) continue;
    for (const std::string& directory : directories) {
      const std::string path = base::join_path(directory, library);
      if (!base::file_exists(path)) continue;
      files.push_back(path);
      break;
    }
  }
  return files;
}

std::string python_version(const std::string& version_py) {
  const std::string text = base::read_file(version_py);
  const size_t name = text.find("\n__version__");
  const size_t open = name == std::string::npos ? name : text.find_first_of("'\"", name);
  const size_t close = open == std::string::npos ? open : text.find(text[open], open + 1);
  return close == std::string::npos ? "unknown" : text.substr(open + 1, close - open - 1);
}

}  // namespace

std::string torch_version_of(const std::string& library_path) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(library_path, error);
  const std::string path = error ? library_path : real.string();
  const std::string name = base::file_name(path);
  const size_t suffix = name.find(".so.");
  if (suffix != std::string::npos) return name.substr(suffix + 4);
  const std::string version_py =
      (std::filesystem::path(path).parent_path().parent_path() / "version.py").string();
  return base::file_exists(version_py) ? python_version(version_py) : "unknown";
}

bool shares_mapped_torch(const std::string& engine_path) {
  const std::vector<std::string> mapped = mapped_torch_libraries();
  if (mapped.empty()) return false;
  const std::vector<std::string> own = own_torch_libraries(engine_path);
  const auto is_own = [&](const std::string& library) {
    const std::optional<FileIdentity> file = identity(library);
    return file && std::any_of(own.begin(), own.end(),
                               [&](const std::string& path) { return identity(path) == file; });
  };
  for (const std::string& library : mapped) {
    // libtorch.so holds no code: its neighbours decide.
    if (is_own(library) || base::file_name(library).starts_with("libtorch.so")) continue;
    const std::string wanted = own.empty() ? "not found" : own.front();
    fail(
        Status::unsupported,
        "this process already holds another libtorch: version {} at {}; the engine {} needs version {} at {}",
        torch_version_of(library), library, engine_path, own.empty() ? "unknown" : torch_version_of(wanted),
        wanted);
  }
  return true;
}

}  // namespace trl::engine
