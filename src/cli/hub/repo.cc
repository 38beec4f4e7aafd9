#include "cli/hub/repo.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdlib>
#include <vector>

namespace trl::cli::hub {

namespace {

bool is_plain(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
}

bool is_part(std::string_view part) {
  return !part.empty() && part.front() != '-' && part.front() != '.' && part.back() != '-' &&
         part.back() != '.' && std::ranges::all_of(part, is_plain);
}

std::string decoded(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool code = text[i] == '%' && i + 2 < text.size() &&
                      std::isxdigit(static_cast<unsigned char>(text[i + 1])) != 0 &&
                      std::isxdigit(static_cast<unsigned char>(text[i + 2])) != 0;
    out += code ? static_cast<char>(std::strtol(text.substr(i + 1, 2).c_str(), nullptr, 16)) : text[i];
    if (code) i += 2;
  }
  return out;
}

// Returns the path in an address of the hub, without its first slash; empty: it is another address.
std::string path_on_hub(const std::string& text, const std::string& endpoint) {
  for (const std::string& host :
       {endpoint, std::string("https://huggingface.co"), std::string("http://huggingface.co"),
        std::string("https://www.huggingface.co"), std::string("https://hf.co"),
        std::string("huggingface.co"), std::string("hf.co"), std::string("hf:/")})
    if (text.starts_with(host + "/")) return text.substr(host.size() + 1);
  return "";
}

std::vector<std::string> parts_of(std::string path) {
  path.resize(std::min(path.find_first_of("?#"), path.size()));
  std::vector<std::string> parts;
  while (!path.empty()) {
    const size_t slash = std::min(path.find('/'), path.size());
    if (slash > 0) parts.push_back(decoded(path.substr(0, slash)));
    path.erase(0, slash + 1);
  }
  return parts;
}

using Part = std::vector<std::string>::const_iterator;

std::string joined(Part begin, Part end) {
  std::string text;
  for (Part part = begin; part != end; ++part) text += (part == begin ? "" : "/") + *part;
  return text;
}

// Reads owner/name, or owner/name/(tree|blob|resolve|raw)/revision[/folder/file].
std::optional<Named> of_parts(std::vector<std::string> parts, Repo::Type type) {
  Named out;
  out.repo.type = type;
  if (!parts.empty() && (parts[0] == "datasets" || parts[0] == "models" || parts[0] == "spaces")) {
    if (parts[0] == "spaces") return {};
    out.repo.type = parts[0] == "datasets" ? Repo::Type::dataset : Repo::Type::model;
    parts.erase(parts.begin());
    out.has_type = true;
  }
  const auto view = std::ranges::find_if(parts, [](const std::string& part) {
    return part == "tree" || part == "blob" || part == "resolve" || part == "raw";
  });
  // Finds the end of owner and name: another page of a repository, such as its discussions, follows them.
  const auto id_end =
      view != parts.end() ? view : parts.begin() + std::min<std::ptrdiff_t>(parts.end() - parts.begin(), 2);
  out.repo.id = joined(parts.begin(), id_end);
  if (!is_repo_id(out.repo.id)) return {};
  if (parts.end() - view < 2) return out;
  out.repo.revision = *(view + 1);
  out.has_revision = true;
  if (*view != "tree") out.file = joined(view + 2, parts.end());
  if (!out.file.empty() && !is_safe_path(out.file)) return {};
  return out;
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
  if (std::ranges::any_of(kFiles, [&](std::string_view ending) { return name.ends_with(ending); }))
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
  return text.size() == digits &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
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
  for (const char c : text)
    if (is_plain(c) || c == '~' || (keep_slashes && c == '/'))
      out += c;
    else
      out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  return out;
}

bool is_address(const std::string& text) {
  return text.find("://") != std::string::npos || text.starts_with("huggingface.co/") ||
         text.starts_with("hf.co/");
}

std::optional<Named> named(const std::string& text, Repo::Type type, const std::string& endpoint) {
  if (is_address(text)) {
    const std::string path = path_on_hub(text, endpoint);
    return path.empty() ? std::nullopt : of_parts(parts_of(path), type);
  }
  Named out;
  out.repo.type = type;
  if (type == Repo::Type::dataset || !split_file(text, out.repo.id, out.file)) out.repo.id = text;
  if (!is_repo_id(out.repo.id)) return {};
  return out;
}

}  // namespace trl::cli::hub
