#include "config/table/schema.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <optional>
#include <vector>

#include "base/json/json.h"
#include "base/text/number.h"
#include "config/dataset/datasets.h"
#include "config/method.h"
#include "config/table/option.h"
#include "config/table/option_set.h"
#include "config/table/option_value.h"
#include "config/yaml.h"

namespace trl::config {

namespace {

using base::Json;

Json bound(double value) {
  if (std::trunc(value) == value && std::abs(value) < 0x1p53) return static_cast<int64_t>(value);
  return value;
}

// Returns an end of a range of integers, all of which have 64 bits.
Json integer_bound(double value) {
  if (value >= 0x1p63) return INT64_MAX;
  if (value <= -0x1p63) return INT64_MIN;
  return bound(value);
}

// "6GiB", as parse_memory_size reads it.
constexpr const char* kSizePattern =
    "^ *([0-9][0-9_]*\\.?[0-9_]*|\\.[0-9_]+)([eE][+-]?[0-9]+)? *([TtGgMmKk][Ii]?[Bb])? *$";

// Returns {"NAME": value}.
Json keyword(const char* name, Json value) {
  Json schema = Json::object();
  schema[name] = std::move(value);
  return schema;
}
Json of_type(Json type) { return keyword("type", std::move(type)); }
Json text_like(std::string pattern) {
  Json text = of_type("string");
  text["pattern"] = std::move(pattern);
  return text;
}

// Returns the values of one type in a range; empty: any of the type.
std::vector<Json> numbers(const char* type, std::string_view range) {
  Json values = of_type(type);
  const bool whole = type == std::string_view("integer");
  const Range parsed = range.empty() ? Range() : parse_range(range);
  const auto end = [whole](double value) { return whole ? integer_bound(value) : bound(value); };
  if (whole || std::isfinite(parsed.low))
    values[parsed.low_in ? "minimum" : "exclusiveMinimum"] = end(parsed.low);
  if (whole || std::isfinite(parsed.high))
    values[parsed.high_in ? "maximum" : "exclusiveMaximum"] = end(parsed.high);
  if (!parsed.bytes) return {values};
  return {values, text_like(kSizePattern)};
}

// Returns words, and the boolean that YAML 1.1 makes of one of them: no, on.
Json enumerated(const std::vector<std::string_view>& words) {
  Json values = Json::array();
  for (const std::string_view word : words) values.push_back(word);
  for (const std::string_view word : words)
    if (const auto flag = parse_bool(word); flag && std::ranges::find(values, Json(*flag)) == values.end())
      values.push_back(*flag);
  return keyword("enum", std::move(values));
}

// Returns the forms of one number of an option: words, and ranges.
std::vector<Json> number_forms(const Option& option, std::string_view trainer) {
  const char* const type = option.type == OptionType::integer ? "integer" : "number";
  std::vector<std::string_view> accepted = split_words(accepted_of(option, trainer), '|');
  if (trainer.empty() && !accepted.empty())
    for (const TrainerValues& values : trainer_values())
      if (values.name == option.name)
        for (const std::string_view word : split_words(values.accepted, '|'))
          if (is_range(word) && std::ranges::find(accepted, word) == accepted.end()) accepted.push_back(word);
  std::vector<Json> forms;
  Json words = Json::array();
  for (const std::string_view word : accepted) {
    if (is_range(word)) {
      for (Json& form : numbers(type, word)) forms.push_back(std::move(form));
    } else if (word != "null") {
      const std::optional<double> number = base::parse_double(word);
      words.push_back(number ? bound(*number) : Json(word));
    }
  }
  if (!words.empty()) forms.push_back(keyword("enum", std::move(words)));
  return forms.empty() && accepted.empty() ? numbers(type, {}) : forms;
}

Json any_of(std::vector<Json> forms) {
  if (forms.size() == 1) return std::move(forms.front());
  return keyword("anyOf", std::move(forms));
}

Json list_of(Json item) {
  Json list = of_type("array");
  list["items"] = std::move(item);
  return list;
}

// Returns the forms of a value that is one or several of what `item` says.
std::vector<Json> one_or_list(const Json& item) {
  Json list = list_of(item);
  list["minItems"] = 1;
  return {item, list};
}

// A single value is a list of it, and a text may hold several.
std::vector<Json> list_forms(const Option& option) {
  const std::vector<std::string_view> words = split_words(option.accepted, '|');
  if (option.accepted == kCalls) return {of_type("string"), list_of(of_type("string"))};
  if (option.accepted == kOptionSets) {
    const Json set = text_like("^ *[^ =]+=");
    Json map = of_type("object");
    map["minProperties"] = 1;
    return {set, list_of(any_of({set, std::move(map)}))};
  }
  const bool path = option.accepted == "path";
  if (!words.empty() && !path) return {enumerated(words), list_of(enumerated(words))};
  Json types = Json::array({"string", "number", "boolean", "object", "array"});
  if (takes_null_items(option)) types.push_back("null");
  Json scalars = Json::array({"string", "number", "boolean"});
  const Json one = of_type(path ? Json("string") : std::move(scalars));
  return {one, list_of(of_type(std::move(types)))};
}

// A word that ends with :PATH is the beginning of a text; with one, no other texts are accepted.
std::vector<Json> text_forms(const Option& option) {
  Json text = of_type("string");
  if (!may_be_empty(option)) text["minLength"] = 1;
  std::vector<std::string_view> words = split_words(option.accepted, '|');
  constexpr std::string_view kPath = "PATH";
  const auto open = std::ranges::find_if(words, [&](std::string_view word) { return word.ends_with(kPath); });
  if (open == words.end()) return {text};
  const Json path = text_like(fmt::format("^{}.", open->substr(0, open->size() - kPath.size())));
  words.erase(open);
  return {enumerated(words), path};
}

std::vector<Json> map_forms(const Option& option) {
  std::vector<std::string_view> words = split_words(option.accepted, '|');
  std::vector<Json> forms;
  if (!words.empty() && words.front() == "path") {
    forms.push_back(of_type("string"));
    words.erase(words.begin());
  }
  Json map = of_type("object");
  Json properties = Json::object();
  for (const std::string_view word : words) properties[std::string(word)] = true;
  if (!words.empty()) map["properties"] = std::move(properties);
  map["additionalProperties"] = words.empty();
  forms.push_back(std::move(map));
  return forms;
}

// Returns the entries of a map that an option with a reason to refuse others takes: NAME, or NAME=VALUE.
Json taken_entries(const Option& option) {
  std::map<std::string, Json> values;  // by name; true: any
  for (const std::string_view word : split_words(option.no_ops, '|')) {
    const size_t equals = word.find('=');
    Json& all = values[std::string(word.substr(0, equals))];
    if (equals == word.npos) {
      all = true;
    } else if (all != true) {
      if (all.is_null()) all = keyword("enum", Json::array());
      all["enum"].push_back(parse_flow(word.substr(equals + 1), option.name));
    }
  }
  Json properties = Json::object();
  for (auto& [name, value] : values) properties[name] = std::move(value);
  Json map = of_type("object");
  map["properties"] = std::move(properties);
  map["additionalProperties"] = false;
  return map;
}

// Returns the forms of a value other than null of an option that refuses all but its default and `no_ops`.
std::vector<Json> taken_forms(const Option& option, std::string_view trainer) {
  if (option.type == OptionType::map) return {taken_entries(option)};
  const std::string value(default_of(option, trainer));
  const std::vector<std::string_view> words = split_words(option.no_ops, '|');
  if (option.type == OptionType::list) return {list_of(words.empty() ? Json(false) : enumerated(words))};
  Json values = Json::array();
  if (value != "null") values.push_back(typed_value(option, value));
  for (const std::string_view word : words) values.push_back(typed_value(option, std::string(word)));
  if (values.empty()) return {};
  return {keyword("enum", std::move(values))};
}

// Returns the forms of a value other than null.
std::vector<Json> forms_of(const Option& option, std::string_view trainer) {
  if (names_mixture(option.name)) return {mixture_schema(option.name)};
  if (!option.unsupported.empty() && option.type != OptionType::choice) return taken_forms(option, trainer);
  const bool list = trainer.empty() ? is_list_somewhere(option) : type_of(option, trainer) != option.type;
  switch (option.type) {
    case OptionType::boolean: {
      std::vector<std::string_view> words = split_words(accepted_of(option, trainer), '|');
      std::erase(words, "null");
      if (words.empty() && accepted_of(option, trainer).empty()) return {of_type("boolean")};
      Json values = Json::array();
      for (const std::string_view word : words) values.push_back(word == "true");
      if (values.empty()) return {};
      return {keyword("enum", std::move(values))};
    }
    case OptionType::integer:
    case OptionType::number: {
      std::vector<Json> forms = number_forms(option, trainer);
      if (list) return one_or_list(any_of(std::move(forms)));
      return forms;
    }
    case OptionType::choice: {
      const bool all = trainer.empty() && option.unsupported.empty();
      const Json word = enumerated(all ? choices(option) : words_of(option, trainer));
      if (list) return one_or_list(word);
      return {word};
    }
    case OptionType::list:
      return accepted_of(option, trainer) == "null" ? std::vector<Json>() : list_forms(option);
    case OptionType::map:
      return accepted_of(option, trainer) == "null" ? std::vector<Json>() : map_forms(option);
    case OptionType::text:
      break;
  }
  if (accepted_of(option, trainer) == option.accepted) return text_forms(option);
  return {enumerated(split_words(accepted_of(option, trainer), '|'))};
}

Json with_null(std::vector<Json> forms) {
  if (forms.size() == 1 && forms[0].contains("enum")) {
    forms[0]["enum"].push_back(nullptr);
  } else if (forms.size() == 1 && forms[0].contains("type")) {
    Json& type = forms[0]["type"];
    if (!type.is_array()) {
      Json both = Json::array();
      both.push_back(std::move(type));
      type = std::move(both);
    }
    type.push_back("null");
  } else {
    forms.push_back(of_type("null"));
  }
  return any_of(std::move(forms));
}

std::string description(const Option& option, std::string_view trainer) {
  std::string text(doc_of(option, trainer));
  if (option.unsupported.empty() && option.warning.empty()) return text;
  std::string values(default_of(option, trainer));
  for (const std::string_view value : split_words(option.no_ops, '|')) values += fmt::format(", {}", value);
  return option.unsupported.empty()
             ? fmt::format("{} Ignored with a warning, except for {}: {}.", text, values, option.warning)
             : fmt::format("{} Refused, except for {}: {}.", text, values, option.unsupported);
}

Json property(const Option& option, std::string_view trainer) {
  const bool is_trainer = option.name == "method" && !trainer.empty();
  std::vector<Json> forms = is_trainer ? std::vector<Json>{enumerated({trainer})} : forms_of(option, trainer);
  Json schema = option.nullable ? with_null(std::move(forms)) : any_of(std::move(forms));
  const std::string value(is_trainer ? trainer : default_of(option, trainer));
  if (option.nullable || value != "null") schema["default"] = typed_value(option, value);
  schema["description"] = description(option, trainer);
  return schema;
}

// Whether the other name of an option is that of a field of TRL today, in its trainer for PPO.
bool is_current(std::string_view alias) { return alias == "sft_model_path" || alias == "reward_model_path"; }

// Returns the property of another name of an option; one that has values of its own takes only these.
Json alias_property(const Option& option, std::string_view alias, std::string_view trainer) {
  std::vector<std::string_view> own;
  for (const OldValue& old : old_values())
    if (old.name == alias) own.push_back(old.written);
  Json schema = own.empty() ? property(option, trainer) : enumerated(own);
  schema.erase("default");
  const char* const kind = is_current(alias) ? "Another" : "Older";
  schema["description"] = fmt::format("{} name of {}: {}", kind, option.name, description(option, trainer));
  if (!is_current(alias)) schema["deprecated"] = true;
  return schema;
}

}  // namespace

std::string schema(std::string_view trainer) {
  Json properties = Json::object();
  for (const Option& option : options()) {
    if (!trainer.empty() && !is_of(option, trainer)) continue;
    properties[std::string(option.name)] = property(option, trainer);
    for (const std::string_view alias : alias_list(option))
      properties[std::string(alias)] = alias_property(option, alias, trainer);
  }
  const std::string_view dash = trainer.empty() ? "" : ":";
  const std::string_view of = trainer.empty() ? "" : " of ";
  const Json all = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                    {"$id", fmt::format("urn:libtrl:configuration{}{}", dash, trainer)},
                    {"title", fmt::format("Configuration of libtrl{}{}", of, trainer)},
                    {"type", "object"},
                    {"properties", std::move(properties)},
                    {"additionalProperties", false}};
  return all.dump(2);
}

}  // namespace trl::config
