// Types of arguments that a model writes as text, by the schema of the tool.
#include <cmath>

#include "base/error.h"
#include "base/text/number.h"
#include "text/chat_template/unicode.h"
#include "text/response/response_parser.h"

namespace trl::text {

namespace {

const base::Json* member_of(const base::Json& value, const char* key) {
  if (!value.is_object()) return nullptr;
  const auto found = value.find(key);
  return found == value.end() ? nullptr : &*found;
}

void add_types(const base::Json& schema, std::vector<std::string>& types) {
  const base::Json* const type = member_of(schema, "type");
  if (type != nullptr && type->is_string()) types.push_back(*type);
  if (type != nullptr && type->is_array()) {
    for (const base::Json& one : *type)
      if (one.is_string()) types.push_back(one);
  }
  for (const char* key : {"anyOf", "oneOf"}) {
    const base::Json* const choices = member_of(schema, key);
    if (choices == nullptr || !choices->is_array()) continue;
    for (const base::Json& choice : *choices) add_types(choice, types);
  }
  const base::Json* const nullable = member_of(schema, "nullable");
  if (nullable != nullptr && *nullable == true) types.emplace_back("null");
}

// Returns an integer beyond 64 bits, with its digits.
std::optional<base::Json> large_integer_of(const std::string& text) {
  if (text.empty() || text.find_first_not_of("-0123456789") != text.npos) return std::nullopt;
  try {
    base::Json value = base::parse_exact_json(text, "an argument");
    if (base::large_integer(value)) return value;
  } catch (const Error& error) {
    if (error.status() != Status::format) throw;
  }
  return std::nullopt;
}

std::optional<base::Json> number_of(const std::string& text, bool whole) {
  if (const auto integer = base::parse_int64(text)) return base::Json(*integer);
  if (auto large = large_integer_of(text)) return large;
  const std::optional<double> number = base::parse_double(text);
  if (!number || !std::isfinite(*number)) return std::nullopt;
  const bool integral = std::trunc(*number) == *number && std::abs(*number) < 9.2e18;
  if (whole && !integral) return std::nullopt;
  if (integral && (whole || text.find('.') == std::string::npos))
    return base::Json(static_cast<int64_t>(*number));
  return base::Json(*number);
}

std::optional<base::Json> structure_of(const std::string& text, bool object) {
  try {
    base::Json value = base::parse_exact_json(text, "an argument");
    if (object ? value.is_object() : value.is_array()) return value;
  } catch (const Error& error) {
    if (error.status() != Status::format) throw;
  }
  return std::nullopt;
}

std::optional<base::Json> converted(const std::string& raw, const std::string& type) {
  const std::string text(jinja::strip(raw, jinja::Side::both));
  const std::string small = jinja::to_lower(text);
  if (type == "integer" || type == "number") return number_of(text, type == "integer");
  if (type == "boolean" && (small == "true" || small == "1")) return base::Json(true);
  if (type == "boolean" && (small == "false" || small == "0")) return base::Json(false);
  if (type == "null" && (text == "null" || text == "None")) return base::Json();
  if (type == "object" || type == "array") return structure_of(raw, type == "object");
  return std::nullopt;
}

const base::Json* properties_of(const base::Json& tools, const base::Json& name) {
  if (!tools.is_array()) return nullptr;
  for (const base::Json& tool : tools) {
    const base::Json* const wrapped = member_of(tool, "function");
    const base::Json& own = wrapped != nullptr ? *wrapped : tool;
    const base::Json* const called = member_of(own, "name");
    if (called == nullptr || *called != name) continue;
    const base::Json* const parameters = member_of(own, "parameters");
    return parameters == nullptr ? nullptr : member_of(*parameters, "properties");
  }
  return nullptr;
}

}  // namespace

void give_types(base::Json& function, const base::Json& tools) {
  const base::Json* const name = member_of(function, "name");
  if (name == nullptr || member_of(function, "arguments") == nullptr) return;
  const base::Json* const properties = properties_of(tools, *name);
  if (properties == nullptr || !function["arguments"].is_object()) return;
  for (auto& [key, value] : function["arguments"].items()) {
    const base::Json* const schema = member_of(*properties, key.c_str());
    if (schema == nullptr || !value.is_string()) continue;
    std::vector<std::string> types;
    add_types(*schema, types);
    for (const std::string& type : types) {
      if (auto typed = converted(value.get_ref<const std::string&>(), type)) {
        value = *std::move(typed);
        break;
      }
    }
  }
}

}  // namespace trl::text
