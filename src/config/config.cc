#include "config/config.h"

#include "base/error.h"
#include "base/files/files.h"
#include "base/files/host_files.h"
#include "base/json/json.h"
#include "base/text/nearest.h"
#include "base/text/number.h"
#include "config/dataset/datasets.h"
#include "config/model_options.h"
#include "config/table/option_value.h"
#include "config/training/optim_arguments.h"
#include "config/yaml.h"

namespace trl::config {

namespace {

// Finds an option. trainer: an unknown key is an error that names the nearest of its keys; empty: of all
// keys.
const Option& known(std::string_view key, std::string_view trainer = {}) {
  if (const Option* option = find_option(key)) return *option;
  throw Error(Status::invalid_config, unknown_key(key, trainer), std::string(key));
}

// Returns the value's current name, and of a method that with underscores. A name that is an alias and has
// old values accepts only these.
std::string current_value(const Option& option, const std::string& key, std::string_view value) {
  if (option.name == "method")
    if (const MethodRow* const method = find_method(value)) return method->name;
  std::vector<std::string_view> written;
  for (const OldValue& old : old_values()) {
    if (old.name != key && old.name != option.name) continue;
    const std::optional<bool> flag = parse_bool(old.written);
    if (value == old.written || (flag && parse_bool(value) == flag)) return std::string(old.meaning);
    if (old.written == "null" && option.nullable && canonical_value(option, key, value) == "null")
      return std::string(old.meaning);
    if (old.name == key) written.push_back(old.written);
  }
  if (!written.empty() && key != option.name)
    fail_key(key, "{}: {} is not accepted; give {}", key, shown(value), base::join(written, " or "));
  return std::string(value);
}

// Whether a value in a file has a form that the option takes. Of a text, null is not the word.
bool takes(const Option& option, const base::Json& value) {
  if (value.is_null()) return option.nullable || option.type != OptionType::text;
  if (value.is_array()) return option.type == OptionType::list || is_list_somewhere(option);
  if (value.is_object()) return option.type == OptionType::map;
  return true;
}

// Throws one error for all keys that are not in the table: each was written for another tool, or misspelt.
void refuse_unknown(const std::vector<YamlEntry>& entries, std::string_view origin,
                    std::string_view trainer) {
  std::vector<const YamlEntry*> unknown;
  for (const YamlEntry& entry : entries)
    if (find_option(entry.key) == nullptr) unknown.push_back(&entry);
  if (unknown.empty()) return;
  const Place line{std::string(origin), unknown[0]->line};
  std::string text = fmt::format("{}: {}", line, unknown_key(unknown[0]->key, trainer));
  if (unknown.size() > 1) {
    text = fmt::format("{}: {} keys are unknown", origin, unknown.size());
    for (const YamlEntry* entry : unknown)
      text += fmt::format("; line {}: {}", entry->line, unknown_key(entry->key, trainer));
  }
  throw Error(Status::invalid_config, text, unknown[0]->key, 0, line.in_line(line.line, unknown[0]->column));
}

// In TRL's scripts for PPO it names the model, and model_name_or_path the tokenizer alone.
constexpr std::string_view kPolicy = "sft_model_path";

// Returns what parse makes of a value; nullopt for null.
template <class Parse>
auto parsed(std::string_view key, const std::optional<std::string>& value, const char* kind, Parse parse)
    -> decltype(parse(*value)) {
  if (!value) return std::nullopt;
  const auto result = parse(*value);
  if (!result) fail_key(key, "{}: {} is not {}", key, shown(*value), kind);
  return result;
}

template <typename T>
T not_null(std::string_view key, std::optional<T> value) {
  if (!value) fail_key(key, "{}: it is null, and a value is required", key);
  return *value;
}

}  // namespace

void Config::forget(const std::string& name) {
  const auto found = spellings_.find(name);
  if (found == spellings_.end()) return;
  std::erase_if(warnings_, [&](const std::string& line) {
    return line.starts_with(found->second.name + ": ") || line.starts_with(name + ": ");
  });
  values_.erase(name);
  spellings_.erase(found);
}

void Config::assign(std::string_view key, std::string_view value, int source, std::string place) {
  const Option& option = known(key, method().name);
  const std::string name = underscored(key);
  const std::string canonical =
      canonical_value(option, name, current_value(option, name, value), method().name);
  std::vector<std::string> warnings;
  if (option.name == "optim") optim_named(name, canonical);
  if (value.empty() && !may_be_empty(option))
    fail_key(key, "{}: it is empty; give a directory, or null for trainer_output", name);
  if (std::string warning = check_support(option, name, canonical); !warning.empty())
    warnings.push_back(std::move(warning));
  if (option.name == "attn_implementation") check_attention(name, canonical);
  check_init_kwargs(option.name, canonical);
  if (names_mixture(option.name)) warnings = check_mixture(option.name, base::Json::parse(canonical));
  const std::string target(option.name);
  const auto before = spellings_.find(target);
  const bool again = before != spellings_.end() && before->second.source == source &&
                     before->second.name != name && values_[target] != canonical;
  const bool both = canonical != "null" && values_[target] != "null";
  if (again && both && (name == kPolicy || before->second.name == kPolicy)) {
    const bool first = before->second.name == kPolicy;
    std::string line = fmt::format("{}: it names the model, and {} is not read: the tokenizer is the model's",
                                   kPolicy, shown(first ? canonical : values_[target]));
    if (first) {
      warnings_.push_back(std::move(line));
      return;
    }
    warnings.push_back(std::move(line));
  } else if (again) {
    // A former name with null says that it is not used.
    if (canonical == "null" && name != target) return;
    const bool replaces = values_[target] == "null" && before->second.name != target;
    if (!replaces)
      fail_key(key, "{} and {} are one key with two values, {} and {}: give one of them", before->second.name,
               name, shown(values_[target]), shown(canonical));
  }
  forget(target);
  values_[target] = canonical;
  spellings_[target] = {name, source, std::move(place)};
  warnings_.insert(warnings_.end(), warnings.begin(), warnings.end());
}

void Config::set(std::string_view key, std::string_view value) { assign(key, value, kCalls); }

void Config::unset(std::string_view key) { forget(std::string(known(key, method().name).name)); }

void Config::overlay(const std::vector<std::pair<std::string, std::string>>& options) {
  Config changed = *this;
  const int source = ++changed.sources_;
  for (const auto& [key, value] : options) changed.assign(key, value, source);
  *this = std::move(changed);
}

bool Config::is_set(std::string_view key) const { return values_.contains(std::string(known(key).name)); }

std::string Config::get(std::string_view key) const {
  const Option& option = known(key);
  const auto found = values_.find(std::string(option.name));
  return found == values_.end() ? std::string(default_of(option, method().name)) : found->second;
}

std::string Config::origin(std::string_view key) const {
  const auto found = spellings_.find(std::string(known(key).name));
  return found == spellings_.end() ? "default" : found->second.place;
}

Config::Config(const MethodRow& trainer) { values_["method"] = trainer.name; }

// A value of `method` that is set is one of this version: others are refused.
const MethodRow& Config::method() const {
  const auto found = values_.find("method");
  if (found == values_.end()) return methods().front();
  return *std::ranges::find(trainers(), found->second, &MethodRow::name);
}

bool Config::has(std::string_view key) const { return is_of(known(key), method().name); }

std::optional<std::string> Config::get_text(std::string_view key) const {
  std::string value = get(key);
  if (value == "null" && known(key).nullable) return std::nullopt;
  return value;
}

std::optional<bool> Config::get_optional_bool(std::string_view key) const {
  return parsed(key, get_text(key), "a boolean", parse_bool);
}
std::optional<int64_t> Config::get_optional_int(std::string_view key) const {
  return parsed(key, get_text(key), "an integer", base::parse_int64);
}
std::optional<double> Config::get_optional_double(std::string_view key) const {
  return parsed(key, get_text(key), "a number", base::parse_double);
}

bool Config::get_bool(std::string_view key) const { return not_null(key, get_optional_bool(key)); }
int64_t Config::get_int(std::string_view key) const { return not_null(key, get_optional_int(key)); }
double Config::get_double(std::string_view key) const { return not_null(key, get_optional_double(key)); }

std::vector<std::string> Config::get_list(std::string_view key) const {
  std::vector<std::string> list;
  const std::string text = get(key);
  const OptionType type = known(key).type;
  if ((type == OptionType::choice || type == OptionType::number) && !text.starts_with('[')) return {text};
  const base::Json json = base::Json::parse(text, nullptr, false);
  if (!json.is_array() && !json.is_null()) fail_key(key, "{}: it is not a list", key);
  for (const base::Json& item : json) list.push_back(as_text(item));
  return list;
}

std::vector<std::pair<std::string, std::string>> Config::get_pairs(std::string_view key) const {
  std::vector<std::pair<std::string, std::string>> pairs;
  const base::Json json = base::Json::parse(get(key), nullptr, false);
  if (!json.is_object() && !json.is_null()) fail_key(key, "{}: it is not a mapping", key);
  for (const auto& [name, value] : json.items()) pairs.emplace_back(name, as_text(value));
  return pairs;
}

void Config::check_method() const {
  const std::string_view trainer = method().name;
  for (const auto& [name, value] : values_) {
    const Option& option = known(name);
    if (!is_of(option, trainer)) {
      const std::string_view here = key_called(name, trainer);
      fail_key(name, "{}: {} does not have this key; it is one of {}{}", name, trainer,
               trainer_names(option.trainers, ", "),
               here.empty() ? "" : fmt::format("; the key for it is {}", here));
    }
    const bool list = default_of(option, trainer).starts_with('[');
    const bool several = is_list_somewhere(option) && value.starts_with('[');
    for (const std::string& word : several ? get_list(name) : std::vector<std::string>{value}) {
      if (trainer_accepts(option, trainer, word) && (list || !several)) continue;
      if (const std::string_view gone = gone_value(name, word); !gone.empty())
        fail_key(name, "{}: {} is not accepted for {}: {}", name, shown(word), trainer, gone);
      fail_key(name, "{}: {} is not accepted for {}; give {}", name, shown(value), trainer,
               accepted_text(option, trainer));
    }
  }
}

std::string Config::values_that_affect(Affects first, Affects last) const {
  std::string text;
  for (const Option& option : options())
    if (option.affects >= first && option.affects <= last)
      text += fmt::format("{}={}\n", option.name, get(option.name));
  return text;
}

std::string Config::to_json() const {
  base::Json json = base::Json::object();
  for (const auto& [name, value] : values_) json[name] = typed_value(known(name), value);
  return json.dump();
}

void Config::load_file(const std::string& path) {
  if (base::is_host_path(path)) {
    fail(Status::unsupported, "{}: options are not read from the host's files: give their text", Place{path});
  }
  if (base::is_directory(path))
    fail(Status::io, "{}: it is a directory; give a YAML or JSON file", Place{path});
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
      const Place line{std::string(origin), entry.line};
      throw error.with(fmt::format("{}: {}", line, error.message()))
          .at(line.in_line(line.line, entry.column));
    }
  }
  *this = std::move(loaded);
}

}  // namespace trl::config
