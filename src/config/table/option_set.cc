#include "config/table/option_set.h"

#include <algorithm>

#include "base/error.h"
#include "config/table/option.h"
#include "config/table/option_value.h"
#include "config/yaml.h"

namespace trl::config {

namespace {

// Splits "a=1 b={c: 2, d: 3} e='x y'" into its parts at spaces outside of brackets and quotes.
std::vector<std::string_view> parts(std::string_view text) {
  std::vector<std::string_view> out;
  size_t begin = 0;
  int depth = 0;
  char quote = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ' ';
    if (i == text.size() || (c == ' ' && depth <= 0 && quote == 0)) {
      if (i > begin) out.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    } else if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return out;
}

std::string_view without_quotes(std::string_view text) {
  const bool quoted = text.size() >= 2 && text.front() == text.back() && (text[0] == '"' || text[0] == '\'');
  return quoted ? text.substr(1, text.size() - 2) : text;
}

}  // namespace

base::Json parse_option_set(std::string_view text, std::string_view key) {
  if (text.starts_with('{')) {
    base::Json set = parse_flow(text, key);
    if (!set.is_object() || set.empty())
      fail_key(key, "{}: {} is not a set of options; give key=value, with spaces between several", key,
               shown(text));
    return set;
  }
  base::Json set = base::Json::object();
  for (const std::string_view part : parts(text)) {
    const size_t equals = part.find('=');
    if (equals == 0 || equals == std::string_view::npos)
      fail_key(key, "{}: {} is not an option; give key=value, with spaces between several", key, shown(part));
    const std::string name(part.substr(0, equals));
    if (set.contains(name)) fail_key(key, "{}: {} is given twice in {}", key, name, shown(text));
    set[name] = std::string(without_quotes(part.substr(equals + 1)));
  }
  if (set.empty()) fail_key(key, "{}: a set is empty; give key=value, with spaces between several", key);
  return set;
}

OptionSet option_set(const base::Json& set) {
  OptionSet out;
  for (const auto& [name, value] : set.items()) {
    out.options.emplace_back(name, as_text(value));
    out.name += fmt::format("{}{}: {}", out.name.empty() ? "" : ", ", name, out.options.back().second);
  }
  return out;
}

std::vector<OptionSet> option_sets(const Config& config, std::string_view key) {
  std::vector<OptionSet> sets;
  for (const std::string& text : config.get_list(key)) sets.push_back(option_set(base::Json::parse(text)));
  return sets;
}

Config with_options(Config config, const OptionSet& set) {
  for (const auto& [name, value] : set.options) {
    const Option* option = find_option(name);
    if (option == nullptr) continue;  // overlay reports it
    const std::string_view section = option->section;
    const bool of_a_trainer = section.ends_with("Config") && section != "DatasetMixtureConfig";
    if (of_a_trainer || section == "Own keys" || section == "Earlier releases") continue;
    fail_key(name,
             "{}: the option sets of a comparison may differ only in options of the run, not in those of {}",
             name, option->section);
  }
  config.overlay(set.options);
  return config;
}

}  // namespace trl::config
