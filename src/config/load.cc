// Loads configuration files: YAML or JSON with keys of the table, as `trl sft --config` reads them.
#include <map>

#include "base/error.h"
#include "base/files/files.h"
#include "config/config.h"
#include "config/option.h"
#include "config/option_value.h"
#include "config/other_names.h"
#include "config/yaml.h"

namespace trl::config {

namespace {

bool takes(const Option& option, const base::Json& value) {
  if (value.is_array()) return option.type == OptionType::list || is_list_somewhere(option);
  if (value.is_object()) return option.type == OptionType::map;
  return true;
}

// Throws one error for all keys that are not in the table: each was written for another tool, or misspelt.
void refuse_unknown(const std::vector<YamlEntry>& entries, std::string_view origin,
                    std::string_view trainer) {
  std::vector<const YamlEntry*> unknown;
  for (const YamlEntry& entry : entries) {
    if (find_option(entry.key) == nullptr) unknown.push_back(&entry);
  }
  if (unknown.empty()) return;
  std::string text =
      fmt::format("{}:{}: {}", origin, unknown[0]->line, unknown_key(unknown[0]->key, trainer));
  if (unknown.size() > 1) {
    text = fmt::format("{}: {} keys are unknown", origin, unknown.size());
    for (const YamlEntry* entry : unknown)
      text += fmt::format("; line {}: {}", entry->line, unknown_key(entry->key, trainer));
  }
  throw Error(Status::invalid_config, text, unknown[0]->key);
}

}  // namespace

void Config::load_file(const std::string& path) {
  if (base::is_directory(path)) fail(Status::io, "{}: it is a directory; give a YAML or JSON file", path);
  load_text(base::read_file(path), path);
}

void Config::load_text(std::string_view text, std::string_view origin) {
  Config loaded = *this;
  const int source = ++loaded.sources_;
  std::map<std::string, int64_t> lines;  // by name: a dash is an underscore
  const std::vector<YamlEntry> entries = parse_yaml_mapping(text, origin, loaded.warnings_);
  refuse_unknown(entries, origin, method().name);
  for (const YamlEntry& entry : entries) {
    const auto [first, is_new] = lines.emplace(underscored(entry.key), entry.line);
    if (!is_new) {
      loaded.warnings_.push_back(
          fmt::format("{}:{}: {}: the key is given twice, first in line {}; this one counts", origin,
                      entry.line, entry.key, first->second));
    }
    try {
      const Option* option = find_option(entry.key);
      if (option != nullptr && !takes(*option, entry.value)) {
        fail_key(entry.key, "{}: {} is not accepted; give {}", entry.key, shown(entry.text()),
                 accepted_text(*option));
      }
      const bool number =
          option != nullptr && (option->type == OptionType::integer || option->type == OptionType::number);
      loaded.assign(entry.key, number && entry.plain ? decimal(entry.text()) : entry.text(), source,
                    fmt::format("{}:{}", origin, entry.line));
    } catch (const Error& error) {
      throw Error(error.status(), fmt::format("{}:{}: {}", origin, entry.line, error.message()), error.key());
    }
  }
  *this = std::move(loaded);
}

}  // namespace trl::config
