#include "text/constraint/schema_types.h"

#include <algorithm>
#include <cmath>

namespace trl::text {

namespace {

using base::Json;

}  // namespace

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

Json as_type_list(const Json& value) {
  if (value.is_array()) return value;
  Json list = Json::array();
  list.push_back(value);
  return list;
}

Json common_types(const Json& a, const Json& b) {
  const auto has = [](const Json& list, const Json& type) {
    return std::ranges::find(list, type) != list.end() ||
           (type == "integer" && std::ranges::find(list, "number") != list.end());
  };
  const Json left = as_type_list(a), right = as_type_list(b);
  Json all = Json::array();
  for (const Json& type : left)
    if (has(right, type)) all.push_back(type);
  for (const Json& type : right)
    if (has(left, type) && std::ranges::find(all, type) == all.end()) all.push_back(type);
  return all;
}

}  // namespace trl::text
