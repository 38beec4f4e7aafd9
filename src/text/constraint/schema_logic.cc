#include "text/constraint/schema_logic.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "text/constraint/schema_keywords.h"

namespace trl::text {

namespace {

using base::Json;

constexpr int kMostFollowed = 8;  // schemas in schemas that are compared

// Keywords of which the larger value says both, and the smaller one.
constexpr std::array kLowerBounds = {"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"};
constexpr std::array kUpperBounds = {"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"};

template <class Names>
bool is_among(const Names& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

// Appends an element, also to a value that is not a list yet.
Json joined_lists(const Json& a, const Json& b) {
  Json all = a;
  for (const Json& one : b)
    if (std::ranges::find(all, one) == all.end()) all.push_back(one);
  return all;
}

Json as_list(const Json& value) {
  if (value.is_array()) return value;
  Json list = Json::array();
  list.push_back(value);
  return list;
}

// The types that both lists have; an integer is a number.
Json common_types(const Json& a, const Json& b) {
  const auto has = [](const Json& list, const Json& type) {
    return std::ranges::find(list, type) != list.end() ||
           (type == "integer" && std::ranges::find(list, "number") != list.end());
  };
  const Json left = as_list(a), right = as_list(b);
  Json all = Json::array();
  for (const Json& type : left)
    if (has(right, type)) all.push_back(type);
  for (const Json& type : right)
    if (has(left, type) && std::ranges::find(all, type) == all.end()) all.push_back(type);
  return all;
}

Json common_values(const Json& a, const Json& b) {
  Json all = Json::array();
  for (const Json& one : a)
    if (std::ranges::find(b, one) != b.end()) all.push_back(one);
  return all;
}

// A property of both has to be as both say.
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

// Properties that one schema lets be must not be forbidden by what the other one says of all others.
bool closes(const Json& a, const Json& b) {
  const Json* const others = find_keyword(a, "additionalProperties");
  if (others == nullptr || *others == true) return false;
  const Json *const own = find_keyword(a, "properties"), *const more = find_keyword(b, "properties");
  if (more == nullptr || !more->is_object()) return false;
  for (const auto& [name, schema] : more->items())
    if (own == nullptr || !own->contains(name)) return true;
  return false;
}

// The values of a schema that lists them all; null: it lists none.
std::optional<Json> values_of(const Json& schema) {
  if (const Json* const value = find_keyword(schema, "const")) {
    Json list = Json::array();
    list.push_back(*value);
    return list;
  }
  const Json* const values = find_keyword(schema, "enum");
  return values != nullptr && values->is_array() ? std::optional(*values) : std::nullopt;
}

class Exclusion {
 public:
  explicit Exclusion(const Json& root) : root_(root) {}

  bool holds(const Json& a, const Json& b, int depth) const {
    if (a == false || b == false) return true;
    if (!a.is_object() || !b.is_object() || depth > kMostFollowed) return false;
    if (const Json* const place = referred(a)) return !has_more_properties(a) && holds(*place, b, depth + 1);
    if (const Json* const place = referred(b)) return holds(a, *place, depth + 1);
    if (differ_by_type(a, b) || differ_by_value(a, b) || differ_by_value(b, a) ||
        differ_by_property(a, b, depth))
      return true;
    // Each alternative of `b` has to be wrong, or all of `a`.
    return each_of(a, [&](const Json& one) { return holds(one, b, depth + 1); }) ||
           each_of(b, [&](const Json& one) { return holds(a, one, depth + 1); });
  }

 private:
  const Json* referred(const Json& schema) const {
    const Json* const name = find_keyword(schema, "$ref");
    return name != nullptr && name->is_string() ? referred_place(root_, name->get_ref<const std::string&>())
                                                : nullptr;
  }

  // Returns whether texts may have properties that the keyword `properties` or a place does not name.
  static bool has_more_properties(const Json& schema) {
    const bool refers = schema.contains("$ref");
    return std::ranges::any_of(std::array{"allOf", "anyOf", "oneOf", refers ? "properties" : "$ref"},
                               [&](const char* name) { return schema.contains(name); });
  }

  static bool is_object_alone(const Json& schema) {
    const Json* const type = find_keyword(schema, "type");
    return type == nullptr ||
           std::ranges::all_of(as_list(*type), [](const Json& one) { return one == "object"; });
  }

  template <class Holds>
  static bool each_of(const Json& schema, const Holds& holds) {
    for (const char* const name : {"anyOf", "oneOf"}) {
      const Json* const all = find_keyword(schema, name);
      if (all != nullptr && all->is_array() && std::ranges::all_of(*all, holds)) return true;
    }
    return false;
  }

  static bool differ_by_type(const Json& a, const Json& b) {
    const Json *const left = find_keyword(a, "type"), *const right = find_keyword(b, "type");
    return left != nullptr && right != nullptr && common_types(*left, *right).empty() &&
           common_types(*right, *left).empty();
  }

  static bool differ_by_value(const Json& a, const Json& b) {
    const std::optional<Json> values = values_of(a);
    if (!values) return false;
    const std::optional<Json> others = values_of(b);
    const Json* const type = find_keyword(b, "type");
    return std::ranges::all_of(*values, [&](const Json& value) {
      if (others && std::ranges::find(*others, value) == others->end()) return true;
      const Json types = type != nullptr ? as_list(*type) : Json::array();
      return type != nullptr && std::ranges::none_of(types, [&](const Json& one) {
               return one.is_string() && is_of_schema_type(value, one.get_ref<const std::string&>());
             });
    });
  }

  // A property that `a` always writes and `b` does not accept, or one that `b` needs and `a` never writes.
  bool differ_by_property(const Json& a, const Json& b, int depth) const {
    const Json *const own = find_keyword(a, "properties"), *const theirs = find_keyword(b, "properties");
    if (own == nullptr || !own->is_object() || !is_object_alone(a)) return false;
    const auto required = [](const Json& schema) {
      const Json* const names = find_keyword(schema, "required");
      return names != nullptr && names->is_array() ? *names : Json::array();
    };
    const Json written = required(a), needed = required(b);
    for (const Json& name : written) {
      if (!name.is_string() || theirs == nullptr || !theirs->is_object()) continue;
      const Json *const mine = find_keyword(*own, name.get_ref<const std::string&>()),
                        *const other = find_keyword(*theirs, name.get_ref<const std::string&>());
      if (mine != nullptr && other != nullptr && holds(*mine, *other, depth + 1)) return true;
    }
    const Json* const others = find_keyword(a, "additionalProperties");
    if ((others != nullptr && *others != false) || has_more_properties(a)) return false;
    return std::ranges::any_of(needed, [&](const Json& name) {
      return name.is_string() && !own->contains(name.get_ref<const std::string&>()) &&
             std::ranges::find(written, name) == written.end();
    });
  }

  const Json& root_;
};

// "%24" and the like as the character that it is.
std::string without_percents(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](size_t at) -> int {
      const char c = at < text.size() ? text[at] : 'x';
      if (c >= '0' && c <= '9') return c - '0';
      const char low = static_cast<char>(c | 0x20);
      return low >= 'a' && low <= 'f' ? low - 'a' + 10 : -1;
    };
    if (text[i] != '%' || digit(i + 1) < 0 || digit(i + 2) < 0) {
      out += text[i];
      continue;
    }
    out += static_cast<char>(digit(i + 1) * 16 + digit(i + 2));
    i += 2;
  }
  return out;
}

}  // namespace

const Json* referred_place(const Json& root, std::string_view reference) {
  if (!reference.starts_with("#")) return nullptr;
  try {
    return &root.at(Json::json_pointer(without_percents(reference.substr(1))));
  } catch (const Json::exception&) {
    return nullptr;
  }
}

bool is_of_schema_type(const Json& value, std::string_view type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "number") return value.is_number();
  return type == "integer" && value.is_number() &&
         (value.is_number_integer() || std::floor(value.get<double>()) == value.get<double>());
}

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

bool excludes_schema(const Json& root, const Json& a, const Json& b) {
  return Exclusion(root).holds(a, b, 0);
}

}  // namespace trl::text
