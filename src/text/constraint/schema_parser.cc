// Parses a schema by its form: one of several, a constant, or a type.
#include "text/constraint/schema_parser.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text/utf8.h"
#include "text/constraint/json_tree.h"
#include "text/constraint/schema_keywords.h"

namespace trl::text {

namespace {

constexpr int kMostNestedSchemas = 32;  // schemas in schemas
constexpr size_t kMostParts = 200000;

size_t size_of(const PatternTree& tree) {
  size_t all = 1;
  for (const PatternTree& part : tree.parts) all += size_of(part);
  return all;
}

}  // namespace

bool SchemaParser::is_too_large() const {
  return is_recursive_ && (parts_ > kMostParts || nested_ > kMostNestedSchemas);
}

PatternTree SchemaParser::parse(const Json& schema, const std::string& path) {
  if (schema.is_boolean()) return schema.get<bool>() ? any(kAnyNested, path) : json_nothing();
  if (!schema.is_object()) refuse(path, "a schema is an object, true or false");
  if (++nested_ > kMostNestedSchemas)
    refuse(path, fmt::format("schemas are nested deeper than {}", kMostNestedSchemas));
  for (const auto& [name, value] : schema.items()) check_name(name, value, path);
  PatternTree tree = choose(schema, path);
  charge(size_of(tree), path);
  --nested_;
  return tree;
}

void SchemaParser::refuse(const std::string& path, std::string_view what) const {
  fail_key(key_, "{}: at {}: {}", key_, path, what);
}

// Trees may be in others more than once: bounds what is made before the automaton counts.
void SchemaParser::charge(size_t parts, const std::string& path) {
  parts_ += parts;
  if (parts_ > kMostParts)
    refuse(path, fmt::format("the schema is too large: written out it has more than {} parts", kMostParts));
}

PatternTree SchemaParser::any(int depth, const std::string& path) {
  charge(size_t{64} << depth, path);
  return json_any(depth);
}

void SchemaParser::check_name(const std::string& name, const Json& value, const std::string& path) const {
  if (says_nothing(name, value) || is_schema_keyword(name)) return;
  refuse(path,
         fmt::format("'{}' is not supported; supported are {}", base::one_line(name), all_schema_keywords()));
}

// Refuses keywords next to one that says all.
void SchemaParser::check_alone(const Json& schema, const char* name, const std::string& path) const {
  for (const auto& [other, value] : schema.items()) {
    if (other == name || other == "type" || says_nothing(other, value)) continue;
    refuse(path, fmt::format("'{}' beside '{}' is not supported; give one of them", other, name));
  }
}

PatternTree SchemaParser::choose(const Json& schema, const std::string& path) {
  const Json* const reference = find_keyword(schema, "$ref");
  if (schema.contains("allOf") || (reference != nullptr && says_more(schema, "$ref"))) {
    return parse_whole([&] { return together(schema, path); }, path);
  }
  if (reference != nullptr) {
    const Json* const place = follow(*reference, path);
    if (place == nullptr) return json_nothing();
    const std::string name = open_.back();  // which moves as others are opened
    PatternTree tree = parse(*place, name);
    open_.pop_back();
    return tree;
  }
  if (const Json* const value = find_keyword(schema, "const")) {
    check_alone(schema, "const", path);
    Json values = Json::array();
    values.push_back(*value);
    return one_of(values, schema, path + "/const");
  }
  if (const Json* const values = find_keyword(schema, "enum")) {
    check_alone(schema, "enum", path);
    if (!values->is_array() || values->empty()) refuse(path + "/enum", "a list of values is needed");
    return one_of(*values, schema, path + "/enum");
  }
  for (const char* const name : {"anyOf", "oneOf"})
    if (schema.contains(name)) return alternatives(schema, name, path);
  return typed(schema, path);
}

// Names that a schema without a type has are of one.
std::vector<std::string> SchemaParser::types_of(const Json& schema, const std::string& path) const {
  const Json* const type = find_keyword(schema, "type");
  if (type == nullptr) {
    for (const char* const name : {"properties", "required", "additionalProperties", "minProperties",
                                   "maxProperties", "patternProperties", "propertyNames"})
      if (schema.contains(name)) return {"object"};
    for (const char* const name : {"items", "prefixItems", "minItems", "maxItems"})
      if (schema.contains(name)) return {"array"};
    for (const char* const name : {"minLength", "maxLength", "pattern", "format"})
      if (schema.contains(name)) return {"string"};
    for (const char* const name : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
      if (schema.contains(name)) return {"number"};
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

PatternTree SchemaParser::typed(const Json& schema, const std::string& path) {
  const std::vector<std::string> types = types_of(schema, path);
  if (types.empty()) return any(kAnyNested, path);
  std::vector<PatternTree> all;
  for (const std::string& type : types) all.push_back(of_type(type, schema, path));
  return all.size() == 1 ? std::move(all[0]) : PatternTree::choice(std::move(all));
}

PatternTree SchemaParser::of_type(const std::string& type, const Json& schema, const std::string& path) {
  if (type == "object") return object(schema, path);
  if (type == "array") return array(schema, path);
  if (type == "string") return string(schema, path);
  if (type == "integer" || type == "number") return number(schema, type == "integer", path);
  if (type == "boolean") return json_boolean();
  if (type == "null") return PatternTree::literal("null");
  refuse(path + "/type",
         fmt::format("'{}' is not a type; give object, array, string, integer, number, boolean or null",
                     base::one_line(type)));
}

}  // namespace trl::text
