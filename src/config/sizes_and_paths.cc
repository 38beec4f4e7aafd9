#include "config/sizes_and_paths.h"

#include <cctype>
#include <span>

#include "base/error.h"
#include "base/files/files.h"
#include "base/files/host_files.h"
#include "base/text/number.h"
#include "config/table/option_value.h"

namespace trl::config {

namespace {

struct Unit {
  std::string_view name;
  double bytes;
};
constexpr Unit kUnits[] = {{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}};

constexpr Unit kMemoryUnits[] = {{"TIB", 0x1p40}, {"GIB", 0x1p30}, {"MIB", 0x1p20}, {"KIB", 0x1p10},
                                 {"TB", 1e12},    {"GB", 1e9},     {"MB", 1e6},     {"KB", 1e3}};

std::optional<int64_t> parse(std::string_view text, std::span<const Unit> units) {
  if (const auto bytes = base::parse_int64(text)) return bytes;
  std::string upper(text);
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  for (const Unit& unit : units) {
    if (!upper.ends_with(unit.name)) continue;
    const std::optional<double> count =
        base::parse_double(trimmed(text.substr(0, text.size() - unit.name.size())));
    if (!count || !(*count * unit.bytes < 0x1p63)) return {};
    return static_cast<int64_t>(std::max(*count * unit.bytes, -1.0));
  }
  return {};
}

// Returns whether value is "name" or "owner/name", without the ending of a file.
bool looks_like_hub_id(std::string_view value) {
  constexpr std::string_view kEndings[] = {".jsonl",       ".json",    ".gz",  ".zst", ".gguf",
                                           ".safetensors", ".yaml",    ".csv", ".txt", ".yml",
                                           ".jinja",       ".parquet", ".so"};
  if (value.empty() || value.front() == '/' || value.front() == '.' || value.front() == '~') return false;
  for (const std::string_view ending : kEndings)
    if (value.ends_with(ending)) return false;
  const auto legal = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.' || c == '/';
  };
  return std::ranges::all_of(value, legal) && std::ranges::count(value, '/') <= 1 && value.back() != '/';
}

}  // namespace

int64_t byte_size(const Config& config, const char* key) {
  const std::string text = config.get(key);
  const std::optional<int64_t> bytes = parse(trimmed(text), kUnits);
  if (!bytes || *bytes < 1) {
    fail_key(
        key,
        "{}: {} is not accepted: give a positive number of bytes, or one with TB, GB, MB or KB, as in 5GB",
        key, shown(text));
  }
  return *bytes;
}

std::optional<int64_t> parse_memory_size(std::string_view text) { return parse(trimmed(text), kMemoryUnits); }

int64_t memory_size(const Config& config, const char* key) {
  const std::string text = config.get(key);
  const std::optional<int64_t> bytes = parse_memory_size(text);
  if (!bytes || *bytes < 1) {
    fail_key(key,
             "{}: {} is not accepted: give auto, a positive number of bytes, or one with GiB, MiB, GB or MB, "
             "as in 6GiB",
             key, shown(text));
  }
  return *bytes;
}

void refuse_host_path(std::string_view key, const std::string& value) {
  if (!base::is_host_path(value)) return;
  fail_key(key,
           "{}: {} is not accepted: files of the host are models, adapters, tokenizers and checkpoints, and "
           "what trl_trainer_save and trl_model_save write; give a path of this machine",
           key, shown(value));
}

void check_local_path(std::string_view key, const std::string& value) {
  refuse_host_path(key, value);
  if (base::file_exists(value) || base::is_directory(value)) return;
  const std::string message =
      looks_like_hub_id(value)
          ? fmt::format("{}: {} does not exist, and no model hub is asked for it: give a local path", key,
                        shown(value))
          : fmt::format("{}: {} does not exist: give the path of an existing file or directory", key,
                        shown(value));
  throw Error(Status::not_found, message, std::string(key), 0, Place::in(value));
}

std::string directory(const Config& config, std::string_view key, const std::string& otherwise) {
  const std::string value = config.get_text(key).value_or(otherwise);
  if (value == "~" || value.starts_with("~/"))
    fail_key(key, "{}: {} is not accepted: '~' is not expanded, give the whole path", key, shown(value));
  refuse_host_path(key, value);
  return value;
}

}  // namespace trl::config
