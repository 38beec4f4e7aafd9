// Parses arrays and objects of a schema.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text/utf8.h"
#include "text/constraint/json_tree.h"
#include "text/constraint/schema_keywords.h"
#include "text/constraint/schema_parser.h"

namespace trl::text {

namespace {

constexpr size_t kMostNameBytes = 256;  // of a name that others must differ from

}  // namespace

// A list as the value of `items` is how drafts before 2020-12 write prefixItems.
PatternTree SchemaParser::array(const Json& schema, const std::string& path) {
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

PatternTree SchemaParser::tuple(const Json& prefix, const std::string& path) {
  std::vector<PatternTree> parts;
  parts.push_back(PatternTree::literal("["));
  for (size_t i = 0; i < prefix.size(); ++i) {
    if (i > 0) parts.push_back(json_mark(','));
    parts.push_back(parse(prefix[i], fmt::format("{}/{}", path, i)));
  }
  parts.push_back(PatternTree::literal("]"));
  return PatternTree::sequence(std::move(parts));
}

PatternTree SchemaParser::object(const Json& schema, const std::string& path) {
  const Json* const properties = find_keyword(schema, "properties");
  const Json* const others = find_keyword(schema, "additionalProperties");
  const bool closed = others != nullptr && *others == false;
  const std::vector<std::string> required = names_of(schema, path);
  if (properties != nullptr && !properties->is_object()) refuse(path + "/properties", "an object is needed");
  const Json known = properties != nullptr ? *properties : Json::object();
  if (known.empty() && required.empty()) return map(schema, path);
  for (const char* const name : {"patternProperties", "propertyNames"})
    if (schema.contains(name)) refuse(path + "/" + name, "beside properties or required it is not supported");
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
void SchemaParser::check_counts(const Json& schema, size_t least, size_t most,
                                const std::string& path) const {
  const Counts wanted = counts(schema, "minProperties", "maxProperties", path);
  if (wanted.least > least)
    refuse(path, "minProperties beside properties is supported up to the number of those that are required");
  if (wanted.most < most)
    refuse(path, "maxProperties beside properties is supported from the number of all of them on");
}

// Any names, or those of one pattern.
PatternTree SchemaParser::map(const Json& schema, const std::string& path) {
  const auto [least, most] = counts(schema, "minProperties", "maxProperties", path);
  const Json* const others = find_keyword(schema, "additionalProperties");
  const Json* const patterns = find_keyword(schema, "patternProperties");
  const Json* const names = find_keyword(schema, "propertyNames");
  const bool closed = others != nullptr && *others == false;
  if (least > 1)
    refuse(path + "/minProperties",
           "above 1 it is supported only beside required properties, because two names may be the same");
  if (patterns != nullptr) {
    if (!patterns->is_object() || patterns->size() != 1 || names != nullptr || (others != nullptr && !closed))
      refuse(path + "/patternProperties",
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

std::vector<std::string> SchemaParser::names_of(const Json& schema, const std::string& path) const {
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

}  // namespace trl::text
