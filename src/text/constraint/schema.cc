#include "text/constraint/schema.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/text/utf8.h"
#include "text/constraint/json_tree.h"
#include "text/constraint/pattern_parser.h"

namespace trl::text {

namespace {

using base::Json;

constexpr uint32_t kNoLimit = PatternTree::kUnlimited;
constexpr int kMostNestedSchemas = 32;  // schemas in schemas
constexpr int kAnyNested = 4;           // values without a schema
constexpr int64_t kMostCount = 10000;
constexpr size_t kMostParts = 200000;

constexpr std::array kNotes = {"title", "description", "default",      "examples", "$schema",
                               "$id",   "$comment",    "deprecated",   "readOnly", "writeOnly",
                               "$defs", "definitions", "discriminator"};
constexpr std::array kKeywords = {
    "type",          "enum",          "const",      "anyOf",       "oneOf",
    "allOf",         "$ref",          "properties", "required",    "additionalProperties",
    "minProperties", "maxProperties", "items",      "prefixItems", "minItems",
    "maxItems",      "minLength",     "maxLength",  "pattern",     "format"};

constexpr struct {
  std::string_view name, pattern;
} kFormats[] = {
    {"date", "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"},
    {"time", "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"},
    {"date-time",
     "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]{1,"
     "9})?"
     "(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"},
    {"uuid", "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"},
    {"email",
     "[A-Za-z0-9_%+-]+(\\.[A-Za-z0-9_%+-]+)*@[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?"
     "(\\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)+"},
    {"ipv4",
     "((25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])\\.){3}(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"},
};

class SchemaParser {
 public:
  SchemaParser(const Json& root, std::string_view key) : root_(root), key_(key) {}

  PatternTree parse(const Json& schema, const std::string& path) {
    if (schema.is_boolean() && schema.get<bool>()) return any(kAnyNested, path);
    if (!schema.is_object()) refuse(path, "a schema is an object, or true");
    if (++nested_ > kMostNestedSchemas)
      refuse(path, fmt::format("schemas are nested deeper than {}", kMostNestedSchemas));
    for (const auto& [name, value] : schema.items()) check_name(name, path);
    PatternTree tree = choose(schema, path);
    charge(size_of(tree), path);
    --nested_;
    return tree;
  }

 private:
  [[noreturn]] void refuse(const std::string& path, std::string_view what) const {
    fail_key(key_, "{}: at {}: {}", key_, path, what);
  }

  // Trees may be in others more than once: bounds what is made before the automaton counts.
  void charge(size_t parts, const std::string& path) {
    parts_ += parts;
    if (parts_ > kMostParts)
      refuse(path, fmt::format("the schema is too large: written out it has more than {} parts", kMostParts));
  }
  static size_t size_of(const PatternTree& tree) {
    size_t all = 1;
    for (const PatternTree& part : tree.parts) all += size_of(part);
    return all;
  }
  PatternTree any(int depth, const std::string& path) {
    charge(size_t{64} << (2 * depth), path);
    return json_any(depth);
  }

  void check_name(const std::string& name, const std::string& path) const {
    if (std::ranges::find(kNotes, name) != kNotes.end() ||
        std::ranges::find(kKeywords, name) != kKeywords.end())
      return;
    std::string all;
    for (const char* const one : kKeywords) all += (all.empty() ? "" : ", ") + std::string(one);
    refuse(path, fmt::format("'{}' is not supported; supported are {}", base::one_line(name), all));
  }

  const Json* find(const Json& schema, const char* name) const {
    const auto found = schema.find(name);
    return found == schema.end() ? nullptr : &*found;
  }

  // Refuses keywords beside one that says all.
  void check_alone(const Json& schema, const char* name, const std::string& path) const {
    for (const auto& [other, value] : schema.items()) {
      const bool typed =
          other == "type" && (std::string_view(name) == "enum" || std::string_view(name) == "const");
      if (other == name || typed || std::ranges::find(kNotes, other) != kNotes.end()) continue;
      refuse(path, fmt::format("'{}' beside '{}' is not supported; give one of them", other, name));
    }
  }

  PatternTree choose(const Json& schema, const std::string& path) {
    if (const Json* const ref = find(schema, "$ref")) {
      check_alone(schema, "$ref", path);
      return referred(*ref, path);
    }
    if (const Json* const value = find(schema, "const")) {
      check_alone(schema, "const", path);
      return json_value(*value);
    }
    if (const Json* const values = find(schema, "enum")) {
      check_alone(schema, "enum", path);
      if (!values->is_array() || values->empty()) refuse(path + "/enum", "a list of values is needed");
      std::vector<PatternTree> all;
      for (const Json& value : *values) all.push_back(json_value(value));
      return PatternTree::choice(std::move(all));
    }
    for (const char* const name : {"anyOf", "oneOf", "allOf"}) {
      const Json* const schemas = find(schema, name);
      if (schemas == nullptr) continue;
      check_alone(schema, name, path);
      return any_of(*schemas, path + "/" + name, std::string_view(name) == "allOf");
    }
    return typed(schema, path);
  }

  PatternTree any_of(const Json& schemas, const std::string& path, bool all_hold) {
    if (!schemas.is_array() || schemas.empty()) refuse(path, "a list of schemas is needed");
    if (all_hold && schemas.size() > 1)
      refuse(path, "several schemas that all hold are not supported; give one");
    std::vector<PatternTree> all;
    for (size_t i = 0; i < schemas.size(); ++i)
      all.push_back(parse(schemas[i], fmt::format("{}/{}", path, i)));
    return PatternTree::choice(std::move(all));
  }

  PatternTree referred(const Json& ref, const std::string& path) {
    const std::string name = ref.is_string() ? ref.get<std::string>() : "";
    if (!name.starts_with("#")) refuse(path, "$ref: only places in the schema itself, #/..., are supported");
    if (std::ranges::find(open_, name) != open_.end())
      refuse(path, fmt::format("$ref: {} contains itself: recursive schemas are not supported",
                               base::one_line(name)));
    const Json* target = nullptr;
    try {
      target = &root_.at(Json::json_pointer(name.substr(1)));
    } catch (const Json::exception&) {
      refuse(path, fmt::format("$ref: {} is not in the schema", base::one_line(name)));
    }
    open_.push_back(name);
    PatternTree tree = parse(*target, name);
    open_.pop_back();
    return tree;
  }

  // Names that a schema without a type has are of one.
  std::vector<std::string> types_of(const Json& schema, const std::string& path) const {
    const Json* const type = find(schema, "type");
    if (type == nullptr) {
      for (const char* const name :
           {"properties", "required", "additionalProperties", "minProperties", "maxProperties"})
        if (schema.contains(name)) return {"object"};
      for (const char* const name : {"items", "prefixItems", "minItems", "maxItems"})
        if (schema.contains(name)) return {"array"};
      for (const char* const name : {"minLength", "maxLength", "pattern", "format"})
        if (schema.contains(name)) return {"string"};
      return {};
    }
    std::vector<std::string> types;
    for (const Json& one : type->is_array() ? *type : Json::array({*type})) {
      if (!one.is_string()) refuse(path + "/type", "a name of a type, or a list of them, is needed");
      types.push_back(one.get<std::string>());
    }
    if (types.empty()) refuse(path + "/type", "a type is needed");
    return types;
  }

  PatternTree typed(const Json& schema, const std::string& path) {
    const std::vector<std::string> types = types_of(schema, path);
    if (types.empty()) return any(kAnyNested, path);
    std::vector<PatternTree> all;
    for (const std::string& type : types) all.push_back(of_type(type, schema, path));
    return all.size() == 1 ? std::move(all[0]) : PatternTree::choice(std::move(all));
  }

  PatternTree of_type(const std::string& type, const Json& schema, const std::string& path) {
    if (type == "object") return object(schema, path);
    if (type == "array") return array(schema, path);
    if (type == "string") return string(schema, path);
    if (type == "integer") return json_integer();
    if (type == "number") return json_number();
    if (type == "boolean") return json_boolean();
    if (type == "null") return PatternTree::literal("null");
    refuse(path + "/type",
           fmt::format("'{}' is not a type; give object, array, string, integer, number, boolean or null",
                       base::one_line(type)));
  }

  std::optional<uint32_t> count(const Json& schema, const char* name, const std::string& path) const {
    const Json* const value = find(schema, name);
    if (value == nullptr) return std::nullopt;
    const bool number = value->is_number_integer();
    if (!number || value->get<int64_t>() < 0 || value->get<int64_t>() > kMostCount)
      refuse(path + "/" + name, fmt::format("an integer from 0 to {} is needed", kMostCount));
    return static_cast<uint32_t>(value->get<int64_t>());
  }

  struct Counts {
    uint32_t least, most;
  };
  Counts counts(const Json& schema, const char* least, const char* most, const std::string& path) const {
    const Counts both{count(schema, least, path).value_or(0), count(schema, most, path).value_or(kNoLimit)};
    if (both.least > both.most) refuse(path, fmt::format("{} is above {}", least, most));
    return both;
  }

  PatternTree string(const Json& schema, const std::string& path) {
    const auto [least, most] = counts(schema, "minLength", "maxLength", path);
    const bool bounded = least > 0 || most != kNoLimit;
    const Json* const pattern = find(schema, "pattern");
    const Json* const format = find(schema, "format");
    if ((bounded && (pattern || format)) || (pattern && format))
      refuse(path,
             "pattern, format, and minLength or maxLength are not supported together; give one of them");
    if (pattern != nullptr) {
      if (!pattern->is_string()) refuse(path + "/pattern", "a text is needed");
      return json_string_of(placed(path + "/pattern", [&] {
        return parse_part_pattern(pattern->get_ref<const std::string&>(), key_);
      }));
    }
    if (format != nullptr) return json_string_of(parse_pattern(format_pattern(*format, path), key_));
    return json_string(least, most);
  }

  std::string_view format_pattern(const Json& format, const std::string& path) const {
    std::string names;
    for (const auto& [name, pattern] : kFormats) {
      if (format == name) return pattern;
      names += (names.empty() ? "" : ", ") + std::string(name);
    }
    refuse(path + "/format",
           fmt::format("{} is not supported; supported are {}", base::one_line(format.dump()), names));
  }

  // Names the place of an error in a pattern.
  template <class Body>
  PatternTree placed(const std::string& path, const Body& body) const {
    try {
      return body();
    } catch (const Error& error) {
      throw error.with(fmt::format("{}: at {}{}", key_, path, error.message().substr(key_.size())));
    }
  }

  PatternTree array(const Json& schema, const std::string& path) {
    const auto [least, most] = counts(schema, "minItems", "maxItems", path);
    const Json* const items = find(schema, "items");
    const Json* const prefix = find(schema, "prefixItems");
    if (prefix != nullptr && (least > prefix->size() || most < prefix->size()))
      refuse(path, "minItems and maxItems beside prefixItems are supported only around its length");
    if (prefix != nullptr) return tuple(*prefix, items, path);
    if (items != nullptr && items->is_boolean() && !items->get<bool>()) return json_list({}, 0, 0);
    return json_list(items ? parse(*items, path + "/items") : any(kAnyNested - 1, path), least, most);
  }

  PatternTree tuple(const Json& prefix, const Json* items, const std::string& path) {
    if (!prefix.is_array() || prefix.empty()) refuse(path + "/prefixItems", "a list of schemas is needed");
    if (items != nullptr && *items != false)
      refuse(path + "/items", "beside prefixItems only false is supported");
    std::vector<PatternTree> parts;
    parts.push_back(PatternTree::literal("["));
    for (size_t i = 0; i < prefix.size(); ++i) {
      if (i > 0) parts.push_back(json_mark(','));
      parts.push_back(parse(prefix[i], fmt::format("{}/prefixItems/{}", path, i)));
    }
    parts.push_back(PatternTree::literal("]"));
    return PatternTree::sequence(std::move(parts));
  }

  PatternTree object(const Json& schema, const std::string& path) {
    const Json* const properties = find(schema, "properties");
    const Json* const others = find(schema, "additionalProperties");
    const bool open = others != nullptr && *others != false;
    const auto [least, most] = counts(schema, "minProperties", "maxProperties", path);
    const std::vector<std::string> required = names_of(schema, path);
    if (properties == nullptr || (properties->is_object() && properties->empty())) {
      if (!required.empty())
        refuse(path + "/required",
               fmt::format("'{}' is not among the properties", base::one_line(required[0])));
      if (others != nullptr && !open) return PatternTree::literal("{}");
      return json_map(open ? parse(*others, path + "/additionalProperties") : any(kAnyNested - 1, path),
                      least, most);
    }
    if (!properties->is_object()) refuse(path + "/properties", "an object is needed");
    if (open)
      refuse(path + "/additionalProperties",
             "beside properties only false is supported: no others are written");
    if (least > 0 || most != kNoLimit)
      refuse(path, "minProperties and maxProperties beside properties are not supported");
    for (const std::string& name : required)
      if (!properties->contains(name))
        refuse(path + "/required", fmt::format("'{}' is not among the properties", base::one_line(name)));
    std::vector<JsonMember> members;
    for (const auto& [name, value] : properties->items()) {
      std::vector<PatternTree> parts;
      parts.push_back(PatternTree::literal(Json(name).dump()));
      parts.push_back(json_mark(':'));
      parts.push_back(parse(value, path + "/properties/" + base::one_line(name)));
      members.push_back(
          {PatternTree::sequence(std::move(parts)), std::ranges::find(required, name) != required.end()});
    }
    if (required.empty())
      for (size_t i = 0; i < members.size(); ++i) charge(i * size_of(members[i].tree), path);
    return json_object(std::move(members));
  }

  std::vector<std::string> names_of(const Json& schema, const std::string& path) const {
    std::vector<std::string> names;
    const Json* const required = find(schema, "required");
    if (required == nullptr) return names;
    if (!required->is_array()) refuse(path + "/required", "a list of names is needed");
    for (const Json& name : *required) {
      if (!name.is_string()) refuse(path + "/required", "a list of names is needed");
      names.push_back(name.get<std::string>());
    }
    return names;
  }

  const Json& root_;
  const std::string_view key_;
  std::vector<std::string> open_;  // references that are being followed
  int nested_ = 0;
  size_t parts_ = 0;
};

}  // namespace

PatternTree parse_schema(const base::Json& schema, std::string_view key) {
  return SchemaParser(schema, key).parse(schema, "#");
}

}  // namespace trl::text
