#include "config/config.h"

#include "base/error.h"
#include "base/json/json.h"
#include "base/text/nearest.h"
#include "base/text/number.h"
#include "config/attention.h"
#include "config/datasets.h"
#include "config/gone_values.h"
#include "config/optim_names.h"
#include "config/option_value.h"
#include "config/other_names.h"
#include "config/yaml.h"

namespace trl::config {

namespace {

// Finds an option. trainer: an unknown key is an error that names the nearest of its keys; empty: of all
// keys.
const Option& known(std::string_view key, std::string_view trainer = {}) {
  if (const Option* option = find_option(key)) return *option;
  throw Error(Status::invalid_config, unknown_key(key, trainer), std::string(key));
}

// Returns the value's current name. A name that is an alias and has old values accepts only these.
std::string current_value(const Option& option, const std::string& key, std::string_view value) {
  std::vector<std::string_view> written;
  for (const OldValue& old : old_values()) {
    if (old.name != key && old.name != option.name) continue;
    const std::optional<bool> flag = parse_bool(old.written);
    if (value == old.written || (flag && parse_bool(value) == flag)) return std::string(old.meaning);
    if (old.written == "null" && option.nullable && canonical_value(option, key, value) == "null") {
      return std::string(old.meaning);
    }
    if (old.name == key) written.push_back(old.written);
  }
  if (!written.empty() && key != option.name) {
    fail_key(key, "{}: {} is not accepted; give {}", key, shown(value), base::join(written, " or "));
  }
  return std::string(value);
}

base::Json typed(const Option& option, const std::string& value) {
  if (value == "null") return nullptr;
  switch (option.type) {
    case OptionType::boolean:
      return value == "true";
    case OptionType::integer:
      if (const std::optional<int64_t> number = base::parse_int64(value)) return *number;
      return value;
    case OptionType::number:
      return base::parse_double(value).value();
    case OptionType::choice:
      if (value.starts_with('[')) break;
      return value;
    case OptionType::text:
      return value;
    case OptionType::list:
    case OptionType::map:
      break;
  }
  return base::Json::parse(value);
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
  if (option.name == "output_dir" && value.empty())
    fail_key(key, "{}: it is empty; give a directory, or null for trainer_output", name);
  if (std::string warning = check_support(option, name, canonical); !warning.empty())
    warnings.push_back(std::move(warning));
  if (option.name == "attn_implementation") check_attention(name, canonical);
  if (names_mixture(option.name)) warnings = check_mixture(option.name, base::Json::parse(canonical));
  const std::string target(option.name);
  const auto before = spellings_.find(target);
  if (before != spellings_.end() && before->second.source == source && before->second.name != name &&
      values_[target] != canonical) {
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

// A value of `method` that is kept is one of this version: others are refused when they are set.
const MethodRow& Config::method() const {
  const auto found = values_.find("method");
  return found == values_.end() ? methods().front() : *find_method(found->second);
}

std::optional<std::string> Config::get_text(std::string_view key) const {
  std::string value = get(key);
  if (value == "null" && known(key).nullable) return std::nullopt;
  return value;
}

std::optional<bool> Config::get_optional_bool(std::string_view key) const {
  const std::optional<std::string> value = get_text(key);
  if (!value) return std::nullopt;
  const std::optional<bool> flag = parse_bool(*value);
  if (!flag) fail_key(key, "{}: {} is not a boolean", key, shown(*value));
  return flag;
}

std::optional<int64_t> Config::get_optional_int(std::string_view key) const {
  const std::optional<std::string> value = get_text(key);
  if (!value) return std::nullopt;
  const std::optional<int64_t> number = base::parse_int64(*value);
  if (!number) fail_key(key, "{}: {} is not an integer", key, shown(*value));
  return number;
}

std::optional<double> Config::get_optional_double(std::string_view key) const {
  const std::optional<std::string> value = get_text(key);
  if (!value) return std::nullopt;
  const std::optional<double> number = base::parse_double(*value);
  if (!number) fail_key(key, "{}: {} is not a number", key, shown(*value));
  return number;
}

namespace {
template <typename T>
T not_null(std::string_view key, std::optional<T> value) {
  if (!value) fail_key(key, "{}: it is null, and a value is required", key);
  return *value;
}
}  // namespace

bool Config::get_bool(std::string_view key) const { return not_null(key, get_optional_bool(key)); }
int64_t Config::get_int(std::string_view key) const { return not_null(key, get_optional_int(key)); }
double Config::get_double(std::string_view key) const { return not_null(key, get_optional_double(key)); }

std::vector<std::string> Config::get_list(std::string_view key) const {
  std::vector<std::string> list;
  const std::string text = get(key);
  if (known(key).type == OptionType::choice && !text.starts_with('[')) return {text};
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
      fail_key(name, "{}: {} does not have this key; it is one of {}", name, trainer,
               trainer_names(option.trainers, ", "));
    }
    if (option.type != OptionType::choice || (option.nullable && value == "null")) continue;
    const std::vector<std::string_view> words = split_words(accepted_of(option, trainer), '|');
    const bool list = default_of(option, trainer).starts_with('[');
    for (const std::string& word : get_list(name)) {
      if (std::find(words.begin(), words.end(), word) != words.end() && (list || !value.starts_with('[')))
        continue;
      if (const std::string_view gone = gone_value(name, word); !gone.empty())
        fail_key(name, "{}: {} is not accepted for {}: {}", name, shown(word), trainer, gone);
      fail_key(name, "{}: {} is not accepted for {}; give {}", name, shown(value), trainer,
               accepted_text(option, trainer));
    }
  }
}

std::string Config::values_that_affect(Affects first, Affects last) const {
  std::string text;
  for (const Option& option : options()) {
    if (option.affects >= first && option.affects <= last)
      text += fmt::format("{}={}\n", option.name, get(option.name));
  }
  return text;
}

std::string Config::to_json() const {
  base::Json json = base::Json::object();
  for (const auto& [name, value] : values_) json[name] = typed(known(name), value);
  return json.dump();
}

}  // namespace trl::config
