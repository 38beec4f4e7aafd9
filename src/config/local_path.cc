#include "config/local_path.h"

#include "base/error.h"
#include "base/files/files.h"
#include "config/option_value.h"

namespace trl::config {

namespace {

// Returns whether value is "name" or "owner/name", without the ending of a file.
bool looks_like_hub_id(std::string_view value) {
  constexpr std::string_view kEndings[] = {".jsonl",       ".json",    ".gz",  ".zst", ".gguf",
                                           ".safetensors", ".yaml",    ".csv", ".txt", ".yml",
                                           ".jinja",       ".parquet", ".so"};
  if (value.empty() || value.front() == '/' || value.front() == '.' || value.front() == '~') return false;
  for (const std::string_view ending : kEndings) {
    if (value.ends_with(ending)) return false;
  }
  const auto legal = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.' || c == '/';
  };
  return std::all_of(value.begin(), value.end(), legal) && std::count(value.begin(), value.end(), '/') <= 1 &&
         value.back() != '/';
}

}  // namespace

void check_local_path(std::string_view key, const std::string& value) {
  if (base::file_exists(value) || base::is_directory(value)) return;
  const std::string message =
      looks_like_hub_id(value)
          ? fmt::format("{}: {} does not exist, and no model hub is asked for it: give a local path", key,
                        shown(value))
          : fmt::format("{}: {} does not exist: give the path of an existing file or directory", key,
                        shown(value));
  throw Error(Status::not_found, message, std::string(key));
}

std::string directory(const Config& config, std::string_view key, const std::string& otherwise) {
  const std::string value = config.get_text(key).value_or(otherwise);
  if (value == "~" || value.starts_with("~/"))
    fail_key(key, "{}: {} is not accepted: '~' is not expanded, give the whole path", key, shown(value));
  return value;
}

}  // namespace trl::config
