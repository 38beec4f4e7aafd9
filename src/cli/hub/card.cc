#include "cli/hub/card.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fnmatch.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <string_view>

#include "cli/hub/hub_error.h"

namespace trl::cli::hub {

namespace {

std::string header_of(const std::string& card) {
  if (!card.starts_with("---\n") && !card.starts_with("---\r\n")) return "";
  const size_t begin = card.find('\n') + 1;
  const size_t end = card.find("\n---", begin - 1);
  return end == std::string::npos ? "" : card.substr(begin, end + 1 - begin);
}

std::string text_of(const YAML::Node& node) { return node.IsScalar() ? node.Scalar() : ""; }

void add_patterns(const YAML::Node& files, const std::string& folder, std::vector<std::string>& out) {
  if (files.IsScalar()) out.push_back(folder.empty() ? files.Scalar() : folder + "/" + files.Scalar());
  if (files.IsSequence()) {
    for (const auto& entry : files) add_patterns(entry.IsMap() ? entry["path"] : entry, folder, out);
  }
}

// Matches folder by folder, since fnmatch does not know **.
bool matches_parts(std::string_view path, std::string_view pattern) {
  const size_t slash = pattern.find('/');
  const std::string part(pattern.substr(0, slash));
  if (part == "**" && slash != std::string_view::npos) {
    if (matches_parts(path, pattern.substr(slash + 1))) return true;
    const size_t next = path.find('/');
    return next != std::string_view::npos && matches_parts(path.substr(next + 1), pattern);
  }
  if (part == "**") return true;
  const size_t end = path.find('/');
  if (::fnmatch(part.c_str(), std::string(path.substr(0, end)).c_str(), 0) != 0) return false;
  if (slash == std::string_view::npos || end == std::string_view::npos) return slash == end;
  return matches_parts(path.substr(end + 1), pattern.substr(slash + 1));
}

CardFiles of_config(const YAML::Node& config) {
  CardFiles out;
  const std::string folder = config["data_dir"] ? text_of(config["data_dir"]) : "";
  out.named = true;
  if (config["data_files"]) {
    add_patterns(config["data_files"], folder, out.patterns);
  } else {
    out.patterns.push_back(folder.empty() ? "**" : folder + "/**");
  }
  return out;
}

}  // namespace

bool CardFiles::matches(const std::string& path) const {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return matches_parts(path, pattern); });
}

CardFiles files_of_card(const std::string& card, const std::string& config, const std::string& id) try {
  const YAML::Node header = YAML::Load(header_of(card));
  const YAML::Node configs = header.IsMap() ? header["configs"] : YAML::Node();
  if (!configs || !configs.IsSequence() || configs.size() == 0) return {};
  std::vector<std::string> names;
  const bool single = config.empty() && configs.size() == 1;
  for (const auto& one : configs) {
    const std::string name = one.IsMap() && one["config_name"] ? text_of(one["config_name"]) : "default";
    const bool is_default =
        name == "default" || (one.IsMap() && one["default"] && one["default"].as<bool>(false));
    if (one.IsMap() && (config.empty() ? single || is_default : name == config)) return of_config(one);
    names.push_back(name);
  }
  if (config.empty())
    throw UnfitError(fmt::format("{}: it has several configurations; give dataset_config: {}", id,
                                 fmt::join(names, ", ")));
  throw UnfitError(
      fmt::format("{}: it has no configuration '{}'; there are: {}", id, config, fmt::join(names, ", ")));
} catch (const YAML::Exception& error) {
  throw UnfitError(fmt::format("{}: the YAML of its README.md is not understood: {}", id, error.what()));
}

}  // namespace trl::cli::hub
