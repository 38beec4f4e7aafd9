#include "text/constraint/schema_exclusion.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/json/is_text.h"
#include "text/constraint/schema_keywords.h"
#include "text/constraint/schema_place.h"
#include "text/constraint/schema_types.h"

namespace trl::text {

namespace {

using base::Json;

constexpr int kMostFollowed = 8;  // schemas in schemas that are compared

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
    return type == nullptr || std::ranges::all_of(as_type_list(*type), [](const Json& one) {
             return base::is_text(one, "object");
           });
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
      const Json types = type != nullptr ? as_type_list(*type) : Json::array();
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

}  // namespace

bool excludes_schema(const Json& root, const Json& a, const Json& b) {
  return Exclusion(root).holds(a, b, 0);
}

}  // namespace trl::text
