#include "text/constraint/schema_merge.h"

#include <algorithm>
#include <array>
#include <optional>

#include "text/constraint/schema_keywords.h"
#include "text/constraint/schema_types.h"

namespace trl::text {

namespace {

using base::Json;

// Keywords of which the larger value says both, and the smaller one.
constexpr std::array kLowerBounds = {"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"};
constexpr std::array kUpperBounds = {"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"};

template <class Names>
bool is_among(const Names& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// Returns the elements of `a` and those of `b` that are not among them.
Json joined_lists(const Json& a, const Json& b) {
  Json all = a;
  for (const Json& one : b)
    if (std::ranges::find(all, one) == all.end()) all.push_back(one);
  return all;
}

Json common_values(const Json& a, const Json& b) {
  Json all = Json::array();
  for (const Json& one : a)
    if (std::ranges::find(b, one) != b.end()) all.push_back(one);
  return all;
}

// A property of both lists is as both say.
Json both_properties(const Json& a, const Json& b) {
  Json all = Json::object();
  for (const auto& [name, schema] : a.items()) {
    const Json* const other = find_keyword(b, name);
    if (other == nullptr || *other == schema) {
      all.emplace(name, Json(schema));
      continue;
    }
    Json together = Json::object(), list = Json::array();
    list.push_back(schema);
    list.push_back(*other);
    together.emplace("allOf", std::move(list));
    all.emplace(name, std::move(together));
  }
  for (const auto& [name, schema] : b.items())
    if (!a.contains(name)) all.emplace(name, Json(schema));
  return all;
}

// nullopt: one schema cannot say both.
std::optional<Json> both_values(std::string_view keyword, const Json& a, const Json& b) {
  if (a == b) return a;
  if (is_among(kLowerBounds, keyword) && a.is_number() && b.is_number()) return a < b ? b : a;
  if (is_among(kUpperBounds, keyword) && a.is_number() && b.is_number()) return a < b ? a : b;
  if (keyword == "properties" && a.is_object() && b.is_object()) return both_properties(a, b);
  const bool lists = a.is_array() && b.is_array();
  if ((keyword == "required" || keyword == "allOf") && lists) return joined_lists(a, b);
  std::optional<Json> common;
  if (keyword == "enum" && lists) common = common_values(a, b);
  if (keyword == "type") common = common_types(a, b);
  if (common && common->empty()) return std::nullopt;
  return common;
}

// Returns whether `a` limits its additional properties and `b` names one that is additional to `a`.
bool closes(const Json& a, const Json& b) {
  const Json* const others = find_keyword(a, "additionalProperties");
  if (others == nullptr || *others == true) return false;
  const Json *const own = find_keyword(a, "properties"), *const more = find_keyword(b, "properties");
  if (more == nullptr || !more->is_object()) return false;
  for (const auto& [name, schema] : more->items())
    if (own == nullptr || !own->contains(name)) return true;
  return false;
}

}  // namespace

Json both_schemas(const Json& a, const Json& b, std::string& conflict) {
  conflict.clear();
  if (closes(a, b) || closes(b, a)) conflict = "additionalProperties";
  Json all = a;
  for (const auto& [name, value] : b.items()) {
    const Json* const own = find_keyword(all, name);
    if (own == nullptr) {
      all.emplace(name, Json(value));
      continue;
    }
    if (is_schema_note(name)) continue;
    std::optional<Json> both = both_values(name, *own, value);
    if (!both) {
      conflict = name;
      return all;
    }
    all.at(name) = std::move(*both);
  }
  return all;
}

}  // namespace trl::text
