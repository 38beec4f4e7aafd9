#include "cli/hub/named.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdlib>
#include <vector>

namespace trl::cli::hub {

namespace {

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
        std::string("huggingface.co"), std::string("hf.co"), std::string("hf:/")}) {
    if (text.starts_with(host + "/")) return text.substr(host.size() + 1);
  }
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
  const auto view = std::find_if(parts.begin(), parts.end(), [](const std::string& part) {
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
