#include "run/output_path.h"

#include "base/error.h"
#include "base/files/files.h"
#include "base/files/writable_directory.h"

namespace trl::run {

void need_writable(std::string_view key, const std::string& directory) {
  try {
    base::need_writable_directory(directory);
  } catch (const Error& error) {
    throw Error(error.status(), fmt::format("{}: {}", key, error.message()), std::string(key));
  }
}

std::optional<std::string> output_path(const config::Config& config, const std::string& key) {
  std::optional<std::string> path = config.get_text(key);
  if (!path) return path;
  const size_t slash = path->rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path->substr(0, slash + 1);
  if (!base::is_directory(folder))
    throw Error(Status::not_found, fmt::format("{}: {}: the folder does not exist", key, folder), key);
  if (base::is_directory(*path))
    throw Error(Status::io, fmt::format("{}: {} is a folder; name a file", key, *path), key);
  need_writable(key, folder);
  return path;
}

}  // namespace trl::run
