#include "text/constraint/schema.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/text/utf8.h"
#include "text/constraint/json_bounds.h"
#include "text/constraint/json_formats.h"
#include "text/constraint/json_tree.h"
#include "text/constraint/pattern_parser.h"
#include "text/constraint/schema_logic.h"

namespace trl::text {

namespace {

using base::Json;

constexpr uint32_t kNoLimit = PatternTree::kUnlimited;
constexpr int kMostNestedSchemas = 32;  // schemas in schemas
constexpr int kAnyNested = 4;           // values without a schema
constexpr int64_t kMostCount = 10000;
constexpr size_t kMostParts = 200000;
constexpr int kMostRecursion = 5;              // of a schema in itself
constexpr size_t kMostRecursiveParts = 20000;  // in all, or the recursion is less deep
constexpr size_t kMostNameBytes = 256;         // of a name that others must differ from

constexpr std::array kKeywords = {"type",
                                  "enum",
                                  "const",
                                  "anyOf",
                                  "oneOf",
                                  "allOf",
                                  "$ref",
                                  "properties",
                                  "required",
                                  "additionalProperties",
                                  "minProperties",
                                  "maxProperties",
                                  "propertyNames",
                                  "patternProperties",
                                  "items",
                                  "prefixItems",
                                  "additionalItems",
                                  "minItems",
                                  "maxItems",
                                  "minLength",
                                  "maxLength",
                                  "pattern",
                                  "format",
                                  "minimum",
                                  "maximum",
                                  "exclusiveMinimum",
                                  "exclusiveMaximum"};

// Keywords that with this value say nothing.
bool says_nothing(std::string_view keyword, const Json& value) {
  return is_schema_note(keyword) || (keyword == "uniqueItems" && value == false);
}

size_t size_of(const Json& json) {
  size_t all = 1;
  if (json.is_structured())
    for (const Json& one : json) all += size_of(one);
  return all;
}

size_t size_of(const PatternTree& tree) {
  size_t all = 1;
  for (const PatternTree& part : tree.parts) all += size_of(part);
  return all;
}

// With every repetition, up to about the most that is asked for.
size_t written_size(const PatternTree& tree, size_t most) {
  size_t all = 1;
  for (const PatternTree& part : tree.parts)
    if (all < most) all += written_size(part, most);
  if (tree.kind != PatternTree::Kind::repeat) return all;
  const uint32_t copies = tree.most == kNoLimit ? tree.least + 1 : tree.most;
  return all < most ? all * std::max(copies, 1u) : all;
}

// Whether a text matches a tree without series.
bool has_text(const PatternTree& tree) {
  switch (tree.kind) {
    case PatternTree::Kind::characters:
      return !tree.characters->empty();
    case PatternTree::Kind::choice:
      return std::ranges::any_of(tree.parts, has_text);
    case PatternTree::Kind::repeat:
      return tree.least == 0 || has_text(tree.parts[0]);
    default:
      return std::ranges::all_of(tree.parts, has_text);
  }
}

Json without_keywords(const Json& schema, std::initializer_list<std::string_view> names) {
  Json rest = Json::object();
  for (const auto& [name, value] : schema.items())
    if (std::ranges::find(names, name) == names.end()) rest.emplace(name, Json(value));
  return rest;
}

// Returns whether a schema has keywords beside this one.
bool says_more(const Json& schema, std::string_view than) {
  for (const auto& [name, value] : schema.items())
    if (name != than && !says_nothing(name, value)) return true;
  return false;
}

class SchemaParser {
 public:
  SchemaParser(const Json& root, std::string_view key, int recursion)
      : root_(root), key_(key), recursion_(recursion) {}

  PatternTree parse(const Json& schema, const std::string& path) {
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

  // Whether a schema is in itself, and whether that made it too large.
  bool is_recursive() const { return is_recursive_; }
  bool is_too_large() const { return is_recursive_ && (parts_ > kMostParts || nested_ > kMostNestedSchemas); }

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
  PatternTree any(int depth, const std::string& path) {
    charge(size_t{64} << depth, path);
    return json_any(depth);
  }

  void check_name(const std::string& name, const Json& value, const std::string& path) const {
    if (says_nothing(name, value) || std::ranges::find(kKeywords, name) != kKeywords.end()) return;
    std::string all;
    for (const char* const one : kKeywords) all += (all.empty() ? "" : ", ") + std::string(one);
    refuse(path, fmt::format("'{}' is not supported; supported are {}", base::one_line(name), all));
  }

  // Refuses keywords beside one that says all.
  void check_alone(const Json& schema, const char* name, const std::string& path) const {
    for (const auto& [other, value] : schema.items()) {
      if (other == name || other == "type" || says_nothing(other, value)) continue;
      refuse(path, fmt::format("'{}' beside '{}' is not supported; give one of them", other, name));
    }
  }

  PatternTree choose(const Json& schema, const std::string& path) {
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

  // Parses the schema that `make` puts together, in which all that it has referred to counts as open.
  template <class Make>
  PatternTree parse_whole(const Make& make, const std::string& path) {
    const std::vector<std::string> before = std::exchange(met_, {});
    const Json whole = make();
    const size_t open = open_.size();
    std::ranges::sort(met_);
    open_.insert(open_.end(), met_.begin(), std::ranges::unique(met_).begin());
    PatternTree tree = parse(whole, path);
    open_.resize(open);
    met_ = before;
    return tree;
  }

  // Opens a place that is referred to; null: it is in itself as often as it may be.
  const Json* follow(const Json& reference, const std::string& path) {
    const std::string name = reference.is_string() ? reference.get<std::string>() : "";
    if (!name.starts_with("#")) refuse(path, "$ref: only places in the schema itself, #/..., are supported");
    const Json* const place = referred_place(root_, name);
    if (place == nullptr) refuse(path, fmt::format("$ref: {} is not in the schema", base::one_line(name)));
    const auto opened = std::ranges::count(open_, name);
    is_recursive_ |= opened > 0;
    if (opened >= recursion_) return nullptr;
    open_.push_back(name);
    return place;
  }

  // Returns one schema that says what a schema says with its $ref and allOf.
  Json together(const Json& schema, const std::string& path) {
    if (schema == true) return Json::object();
    if (schema == false) return false;
    if (!schema.is_object()) refuse(path, "a schema is an object, true or false");
    for (const auto& [name, value] : schema.items()) check_name(name, value, path);
    charge(size_of(schema), path);
    Json all = without_keywords(schema, {"$ref", "allOf"});
    if (const Json* const reference = find_keyword(schema, "$ref")) {
      const Json* const place = follow(*reference, path);
      if (place == nullptr) return false;
      const std::string name = open_.back();
      all = both(all, together(*place, name), path + "/$ref");
      open_.pop_back();
      met_.push_back(name);
    }
    const Json* const list = find_keyword(schema, "allOf");
    if (list == nullptr) return all;
    if (!list->is_array() || list->empty()) refuse(path + "/allOf", "a list of schemas is needed");
    for (size_t i = 0; i < list->size(); ++i) {
      const std::string here = fmt::format("{}/allOf/{}", path, i);
      all = both(all, together(list->at(i), here), here);
    }
    return all;
  }

  Json both(const Json& a, const Json& b, const std::string& path) {
    if (a == false || b == false) return false;
    std::string conflict;
    Json all = both_schemas(a, b, conflict);
    if (!conflict.empty())
      refuse(path,
             fmt::format("'{}' is given here and beside it, and what both say together is not supported",
                         conflict));
    charge(size_of(all), path);
    return all;
  }

  // The values of a list that have the type.
  PatternTree one_of(const Json& values, const Json& schema, const std::string& path) {
    std::vector<PatternTree> all;
    const std::vector<std::string> types = types_of(schema, path);
    for (const Json& value : values)
      if (types.empty() ||
          std::ranges::any_of(types, [&](const std::string& type) { return is_of_schema_type(value, type); }))
        all.push_back(json_value(value));
    if (all.empty()) refuse(path, "no value is of the type");
    return PatternTree::choice(std::move(all));
  }

  // The property that tells alternatives apart, which then have to write it; empty: none is named.
  static std::string tag_of(const Json& schema) {
    const Json* const discriminator = find_keyword(schema, "discriminator");
    const Json* const name = discriminator ? find_keyword(*discriminator, "propertyName") : nullptr;
    return name != nullptr && name->is_string() ? name->get<std::string>() : "";
  }

  PatternTree alternatives(const Json& schema, const char* name, const std::string& path) {
    const Json& list = schema.at(name);
    const std::string here = path + "/" + name;
    if (!list.is_array() || list.empty()) refuse(here, "a list of schemas is needed");
    Json rest = without_keywords(schema, {name});
    if (const std::string tag = tag_of(schema); !tag.empty()) {
      Json needs = Json::object(), names = Json::array();
      names.push_back(tag);
      needs.emplace("required", std::move(names));
      rest = both(rest, needs, here);
    }
    const bool says_all = !says_more(rest, name);
    std::vector<Json> schemas;
    std::vector<PatternTree> all;
    for (size_t i = 0; i < list.size(); ++i) {
      const std::string place = fmt::format("{}/{}", here, i);
      all.push_back(parse_whole(
          [&] {
            schemas.push_back(says_all ? list[i] : both(rest, together(list[i], place), place));
            return schemas.back();
          },
          place));
    }
    if (std::string_view(name) == "oneOf") check_exclusive(schemas, here);
    return PatternTree::choice(std::move(all));
  }

  void check_exclusive(const std::vector<Json>& schemas, const std::string& path) {
    charge(schemas.size() * schemas.size(), path);
    for (size_t i = 0; i < schemas.size(); ++i)
      for (size_t k = 0; k < schemas.size(); ++k)
        if (i != k && !excludes_schema(root_, schemas[i], schemas[k]))
          refuse(path,
                 fmt::format("a value of {} may be one of {}, too, as far as is seen; give anyOf, or make "
                             "them differ by type, by constants, or by properties that are required",
                             i, k));
  }

  // Names that a schema without a type has are of one.
  std::vector<std::string> types_of(const Json& schema, const std::string& path) const {
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
    if (type == "integer" || type == "number") return number(schema, type == "integer", path);
    if (type == "boolean") return json_boolean();
    if (type == "null") return PatternTree::literal("null");
    refuse(path + "/type",
           fmt::format("'{}' is not a type; give object, array, string, integer, number, boolean or null",
                       base::one_line(type)));
  }

  // name: minimum or maximum. exclusive: draft 4 has true there, and later drafts another number.
  std::optional<JsonBound> bound(const Json& schema, const char* name, const char* exclusive,
                                 const std::string& path) const {
    const Json *const value = find_keyword(schema, name), *const other = find_keyword(schema, exclusive);
    const bool is_open = other != nullptr && *other == true;
    if (is_open && value == nullptr) refuse(path + "/" + exclusive, fmt::format("true needs {}", name));
    std::optional<JsonBound> bound;
    if (value != nullptr) bound = bound_at(*value, is_open, path + "/" + name);
    if (other == nullptr || other->is_boolean()) return bound;
    JsonBound open = bound_at(*other, true, path + "/" + exclusive);
    if (value == nullptr) return open;
    const bool is_lower = std::string_view(name) == "minimum";
    const bool open_says_less = is_lower ? *other < *value : *other > *value;
    return open_says_less ? bound : std::move(open);
  }

  JsonBound bound_at(const Json& value, bool open, const std::string& path) const {
    std::optional<JsonBound> bound = json_bound(value, open);
    if (!bound) refuse(path, "a number is needed that can be written without an exponent");
    return std::move(*bound);
  }

  PatternTree number(const Json& schema, bool integers, const std::string& path) {
    const auto least = bound(schema, "minimum", "exclusiveMinimum", path),
               most = bound(schema, "maximum", "exclusiveMaximum", path);
    if (!least && !most) return integers ? json_integer() : json_number();
    PatternTree tree = integers ? json_integer_between(least, most) : json_number_between(least, most);
    if (!has_text(tree)) refuse(path, "no number is within its minimum and maximum");
    return tree;
  }

  std::optional<uint32_t> count(const Json& schema, const char* name, const std::string& path) const {
    const Json* const value = find_keyword(schema, name);
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
    const Json* const pattern = find_keyword(schema, "pattern");
    const Json* const format = find_keyword(schema, "format");
    if ((bounded && (pattern || format)) || (pattern && format))
      refuse(path,
             "pattern, format, and minLength or maxLength are not supported together; give one of them");
    if (pattern != nullptr) return json_string_of(part_pattern(*pattern, path + "/pattern"));
    if (format == nullptr) return json_string(least, most);
    const auto known = format_pattern(format->is_string() ? format->get_ref<const std::string&>() : "");
    if (!known)
      refuse(path + "/format", fmt::format("{} is not supported; supported are {}",
                                           base::one_line(format->dump()), known_formats()));
    return json_string_of(parse_pattern(*known, key_));
  }

  // Names the place of an error in a pattern.
  PatternTree part_pattern(const Json& pattern, const std::string& path) const {
    if (!pattern.is_string()) refuse(path, "a text is needed");
    try {
      return parse_part_pattern(pattern.get_ref<const std::string&>(), key_);
    } catch (const Error& error) {
      throw error.with(fmt::format("{}: at {}{}", key_, path, error.message().substr(key_.size())));
    }
  }

  // A list as the value of `items` is how drafts before 2020-12 write prefixItems.
  PatternTree array(const Json& schema, const std::string& path) {
    const auto [least, most] = counts(schema, "minItems", "maxItems", path);
    const Json* items = find_keyword(schema, "items");
    const Json* prefix = find_keyword(schema, "prefixItems");
    const char *prefix_name = "prefixItems", *items_name = "items";
    if (prefix == nullptr && items != nullptr && items->is_array()) {
      prefix = std::exchange(items, find_keyword(schema, "additionalItems"));
      prefix_name = std::exchange(items_name, "additionalItems");
    }
    if (prefix != nullptr) {
      const std::string here = path + "/" + prefix_name;
      if (!prefix->is_array() || prefix->empty()) refuse(here, "a list of schemas is needed");
      if (least > prefix->size() || most < prefix->size())
        refuse(path, fmt::format("minItems and maxItems beside {} are supported only around its length",
                                 prefix_name));
      if (items != nullptr && *items != false)
        refuse(path + "/" + items_name, fmt::format("beside {} only false is supported", prefix_name));
      return tuple(*prefix, here);
    }
    if (items != nullptr && *items == false) return least > 0 ? json_nothing() : json_list({}, 0, 0);
    return json_list(items ? parse(*items, path + "/items") : any(kAnyNested - 1, path), least, most);
  }

  PatternTree tuple(const Json& prefix, const std::string& path) {
    std::vector<PatternTree> parts;
    parts.push_back(PatternTree::literal("["));
    for (size_t i = 0; i < prefix.size(); ++i) {
      if (i > 0) parts.push_back(json_mark(','));
      parts.push_back(parse(prefix[i], fmt::format("{}/{}", path, i)));
    }
    parts.push_back(PatternTree::literal("]"));
    return PatternTree::sequence(std::move(parts));
  }

  PatternTree object(const Json& schema, const std::string& path) {
    const Json* const properties = find_keyword(schema, "properties");
    const Json* const others = find_keyword(schema, "additionalProperties");
    const bool closed = others != nullptr && *others == false;
    const std::vector<std::string> required = names_of(schema, path);
    if (properties != nullptr && !properties->is_object())
      refuse(path + "/properties", "an object is needed");
    const Json known = properties != nullptr ? *properties : Json::object();
    if (known.empty() && required.empty()) return map(schema, path);
    for (const char* const name : {"patternProperties", "propertyNames"})
      if (schema.contains(name))
        refuse(path + "/" + name, "beside properties or required it is not supported");
    std::vector<PatternTree> members;
    std::vector<std::string> names;
    for (const auto& [name, value] : known.items()) {
      PatternTree one = json_member(PatternTree::literal(Json(name).dump()),
                                    parse(value, path + "/properties/" + base::one_line(name)));
      const bool needed = std::ranges::find(required, name) != required.end();
      members.push_back(needed ? std::move(one) : PatternTree::maybe(std::move(one)));
      names.push_back(name);
    }
    const auto value_of_others = [&] {
      return others != nullptr ? parse(*others, path + "/additionalProperties") : any(kAnyNested - 1, path);
    };
    for (const std::string& name : required) {
      if (std::ranges::find(names, name) != names.end()) continue;
      if (closed)
        refuse(path + "/required", fmt::format("'{}' is not among the properties", base::one_line(name)));
      members.push_back(json_member(PatternTree::literal(Json(name).dump()), value_of_others()));
      names.push_back(name);
    }
    check_counts(schema, required.size(), others == nullptr || closed ? names.size() : kNoLimit, path);
    if (others != nullptr && !closed) {
      for (const std::string& name : names)
        if (name.size() > kMostNameBytes)
          refuse(path + "/additionalProperties",
                 fmt::format("a name of the properties has more than {} bytes; give false", kMostNameBytes));
      members.push_back(PatternTree::maybe(PatternTree::separated(
          json_member(json_name_except(names), value_of_others()), json_mark(','), 1, kNoLimit)));
    }
    return json_object(std::move(members));
  }

  // least, most: how many properties are written.
  void check_counts(const Json& schema, size_t least, size_t most, const std::string& path) const {
    const Counts wanted = counts(schema, "minProperties", "maxProperties", path);
    if (wanted.least > least)
      refuse(path,
             "minProperties beside properties is supported up to the number of those that are required");
    if (wanted.most < most)
      refuse(path, "maxProperties beside properties is supported from the number of all of them on");
  }

  // Any names, or those of one pattern.
  PatternTree map(const Json& schema, const std::string& path) {
    const auto [least, most] = counts(schema, "minProperties", "maxProperties", path);
    const Json* const others = find_keyword(schema, "additionalProperties");
    const Json* const patterns = find_keyword(schema, "patternProperties");
    const Json* const names = find_keyword(schema, "propertyNames");
    const bool closed = others != nullptr && *others == false;
    if (least > 1)
      refuse(path + "/minProperties",
             "above 1 it is supported only beside required properties, because two names may be the same");
    if (patterns != nullptr) {
      if (!patterns->is_object() || patterns->size() != 1 || names != nullptr ||
          (others != nullptr && !closed))
        refuse(
            path + "/patternProperties",
            "one pattern is supported, without propertyNames, and with additionalProperties: false or none");
      const std::string here = path + "/patternProperties";
      const auto only = patterns->begin();
      return json_map(json_string_of(part_pattern(Json(only.key()), here)), parse(only.value(), here), least,
                      most);
    }
    if (closed) return least > 0 ? json_nothing() : PatternTree::literal("{}");
    PatternTree name = json_string(0, kNoLimit);
    if (names != nullptr && *names != true) {
      Json text = Json::object();
      text.emplace("type", Json("string"));
      const std::string here = path + "/propertyNames";
      name = parse_whole([&] { return both(text, together(*names, here), here); }, here);
    }
    PatternTree value =
        others != nullptr ? parse(*others, path + "/additionalProperties") : any(kAnyNested - 1, path);
    return json_map(std::move(name), std::move(value), least, most);
  }

  std::vector<std::string> names_of(const Json& schema, const std::string& path) const {
    std::vector<std::string> names;
    const Json* const required = find_keyword(schema, "required");
    if (required == nullptr) return names;
    if (!required->is_array()) refuse(path + "/required", "a list of names is needed");
    for (const Json& name : *required) {
      if (!name.is_string()) refuse(path + "/required", "a list of names is needed");
      if (std::ranges::find(names, name.get_ref<const std::string&>()) == names.end())
        names.push_back(name.get<std::string>());
    }
    return names;
  }

  const Json& root_;
  const std::string_view key_;
  const int recursion_;
  std::vector<std::string> open_;  // references that are being followed
  std::vector<std::string> met_;   // and those of a schema that is put together
  int nested_ = 0;
  size_t parts_ = 0;
  bool is_recursive_ = false;
};

}  // namespace

// A schema in itself is followed as deep as the whole stays small.
PatternTree parse_schema(const base::Json& schema, std::string_view key) {
  for (int recursion = kMostRecursion;; --recursion) {
    SchemaParser parser(schema, key, recursion);
    try {
      PatternTree tree = parser.parse(schema, "#");
      if (recursion == 1 || !parser.is_recursive() ||
          written_size(tree, kMostRecursiveParts) < kMostRecursiveParts)
        return tree;
    } catch (const Error&) {
      if (recursion == 1 || !parser.is_too_large()) throw;
    }
  }
}

}  // namespace trl::text
