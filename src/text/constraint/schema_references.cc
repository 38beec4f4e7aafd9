// Parses schemas that refer to others, or are several at once.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text/utf8.h"
#include "text/constraint/json_tree.h"
#include "text/constraint/schema_exclusion.h"
#include "text/constraint/schema_keywords.h"
#include "text/constraint/schema_merge.h"
#include "text/constraint/schema_parser.h"
#include "text/constraint/schema_place.h"
#include "text/constraint/schema_types.h"

namespace trl::text {

namespace {

using base::Json;

size_t size_of(const Json& json) {
  size_t all = 1;
  if (json.is_structured())
    for (const Json& one : json) all += size_of(one);
  return all;
}

// The property that tells alternatives apart, which then have to write it; empty: none is named.
std::string tag_of(const Json& schema) {
  const Json* const discriminator = find_keyword(schema, "discriminator");
  const Json* const name = discriminator ? find_keyword(*discriminator, "propertyName") : nullptr;
  return name != nullptr && name->is_string() ? name->get<std::string>() : "";
}

}  // namespace

// Parses the schema that `make` puts together, in which all that it has referred to counts as open.
PatternTree SchemaParser::parse_whole(const std::function<Json()>& make, const std::string& path) {
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
const Json* SchemaParser::follow(const Json& reference, const std::string& path) {
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
Json SchemaParser::together(const Json& schema, const std::string& path) {
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

Json SchemaParser::both(const Json& a, const Json& b, const std::string& path) {
  if (a == false || b == false) return false;
  std::string conflict;
  Json all = both_schemas(a, b, conflict);
  if (!conflict.empty())
    refuse(path, fmt::format("'{}' is given here and beside it, and what both say together is not supported",
                             conflict));
  charge(size_of(all), path);
  return all;
}

// The values of a list that have the type.
PatternTree SchemaParser::one_of(const Json& values, const Json& schema, const std::string& path) {
  std::vector<PatternTree> all;
  const std::vector<std::string> types = types_of(schema, path);
  for (const Json& value : values)
    if (types.empty() ||
        std::ranges::any_of(types, [&](const std::string& type) { return is_of_schema_type(value, type); }))
      all.push_back(json_value(value));
  if (all.empty()) refuse(path, "no value is of the type");
  return PatternTree::choice(std::move(all));
}

PatternTree SchemaParser::alternatives(const Json& schema, const char* name, const std::string& path) {
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

void SchemaParser::check_exclusive(const std::vector<Json>& schemas, const std::string& path) {
  charge(schemas.size() * schemas.size(), path);
  for (size_t i = 0; i < schemas.size(); ++i)
    for (size_t k = 0; k < schemas.size(); ++k)
      if (i != k && !excludes_schema(root_, schemas[i], schemas[k]))
        refuse(path,
               fmt::format("a value of {} may be one of {}, too, as far as is seen; give anyOf, or make "
                           "them differ by type, by constants, or by properties that are required",
                           i, k));
}

}  // namespace trl::text
