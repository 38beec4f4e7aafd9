#include "cli/hub/repo.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace trl::cli::hub {

namespace {

bool is_plain(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
}

bool is_part(std::string_view part) {
  return !part.empty() && part.front() != '-' && part.front() != '.' && part.back() != '-' &&
         part.back() != '.' && std::all_of(part.begin(), part.end(), is_plain);
}

}  // namespace

std::string Repo::folder() const {
  std::string name = fmt::format("{}s--{}", type_name(), id);
  if (const size_t slash = name.find('/'); slash != std::string::npos) name.replace(slash, 1, "--");
  return name;
}

std::string Repo::path() const { return type == Type::model ? id : "datasets/" + id; }

std::string Repo::shown() const {
  return revision == "main" ? id : fmt::format("{} (revision {})", id, revision);
}

bool is_repo_id(std::string_view name) {
  constexpr std::array<std::string_view, 15> kFiles = {
      ".jsonl", ".json", ".ndjson", ".gz",  ".zst", ".gguf",  ".safetensors", ".yaml",
      ".csv",   ".tsv",  ".txt",    ".yml", ".so",  ".jinja", ".parquet"};
  if (name.size() > 96 || name.find("--") != std::string_view::npos ||
      name.find("..") != std::string_view::npos || name.ends_with(".git"))
    return false;
  if (std::any_of(kFiles.begin(), kFiles.end(),
                  [&](std::string_view ending) { return name.ends_with(ending); }))
    return false;
  const size_t slash = name.find('/');
  if (slash == std::string_view::npos) return is_part(name);
  return is_part(name.substr(0, slash)) && is_part(name.substr(slash + 1));
}

bool split_file(const std::string& name, std::string& id, std::string& file) {
  if (!name.ends_with(".gguf")) return false;
  const size_t owner = name.find('/');
  const size_t end = owner == std::string::npos ? owner : name.find('/', owner + 1);
  if (end == std::string::npos || !is_repo_id(name.substr(0, end)) || !is_safe_path(name.substr(end + 1)))
    return false;
  id = name.substr(0, end);
  file = name.substr(end + 1);
  return true;
}

bool is_hex(std::string_view text, size_t digits) {
  return text.size() == digits && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

bool is_commit(std::string_view text) { return is_hex(text, 40); }

bool is_safe_path(std::string_view path) {
  if (path.empty() || path.find('\0') != std::string_view::npos || path.find('\\') != std::string_view::npos)
    return false;
  for (;;) {
    const size_t slash = path.find('/');
    const std::string_view part = path.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return false;
    if (slash == std::string_view::npos) return true;
    path.remove_prefix(slash + 1);
  }
}

std::string quoted(std::string_view text, bool keep_slashes) {
  std::string out;
  for (const char c : text) {
    if (is_plain(c) || c == '~' || (keep_slashes && c == '/')) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return out;
}

}  // namespace trl::cli::hub
