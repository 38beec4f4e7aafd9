// Parses numbers and texts of a schema.
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text/utf8.h"
#include "text/constraint/json_formats.h"
#include "text/constraint/json_tree.h"
#include "text/constraint/pattern_parser.h"
#include "text/constraint/schema_keywords.h"
#include "text/constraint/schema_parser.h"

namespace trl::text {

namespace {

constexpr int64_t kMostCount = 10000;

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

}  // namespace

// name: minimum or maximum. exclusive: draft 4 has true there, and later drafts another number.
std::optional<JsonBound> SchemaParser::bound(const Json& schema, const char* name, const char* exclusive,
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

JsonBound SchemaParser::bound_at(const Json& value, bool open, const std::string& path) const {
  std::optional<JsonBound> bound = json_bound(value, open);
  if (!bound) refuse(path, "a number is needed that can be written without an exponent");
  return std::move(*bound);
}

PatternTree SchemaParser::number(const Json& schema, bool integers, const std::string& path) {
  const auto least = bound(schema, "minimum", "exclusiveMinimum", path),
             most = bound(schema, "maximum", "exclusiveMaximum", path);
  if (!least && !most) return integers ? json_integer() : json_number();
  PatternTree tree = integers ? json_integer_between(least, most) : json_number_between(least, most);
  if (has_text(tree)) return tree;
  std::string limits;
  for (const char* const name : {"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"})
    if (const Json* const value = find_keyword(schema, name))
      limits += fmt::format("{}{} {}", limits.empty() ? "" : ", ", name, value->dump());
  refuse(path, fmt::format("no {} is within {}", integers ? "integer" : "number", limits));
}

std::optional<uint32_t> SchemaParser::count(const Json& schema, const char* name,
                                            const std::string& path) const {
  const Json* const value = find_keyword(schema, name);
  if (value == nullptr) return std::nullopt;
  const bool number = value->is_number_integer();
  if (!number || value->get<int64_t>() < 0 || value->get<int64_t>() > kMostCount)
    refuse(path + "/" + name,
           fmt::format("{} is not accepted; give an integer from 0 to {}", value->dump(), kMostCount));
  return static_cast<uint32_t>(value->get<int64_t>());
}

SchemaParser::Counts SchemaParser::counts(const Json& schema, const char* least, const char* most,
                                          const std::string& path) const {
  const Counts both{count(schema, least, path).value_or(0), count(schema, most, path).value_or(kNoLimit)};
  if (both.least > both.most)
    refuse(path, fmt::format("{} {} is above {} {}", least, both.least, most, both.most));
  return both;
}

PatternTree SchemaParser::string(const Json& schema, const std::string& path) {
  const auto [least, most] = counts(schema, "minLength", "maxLength", path);
  const bool bounded = least > 0 || most != kNoLimit;
  const Json* const pattern = find_keyword(schema, "pattern");
  const Json* const format = find_keyword(schema, "format");
  if ((bounded && (pattern || format)) || (pattern && format))
    refuse(path, "pattern, format, and minLength or maxLength are not supported together; give one of them");
  if (pattern != nullptr) return json_string_of(part_pattern(*pattern, path + "/pattern"));
  if (format == nullptr) return json_string(least, most);
  const auto known = format_pattern(format->is_string() ? format->get_ref<const std::string&>() : "");
  if (!known)
    refuse(path + "/format", fmt::format("{} is not supported; supported are {}",
                                         base::one_line(format->dump()), known_formats()));
  return json_string_of(parse_pattern(*known, key_));
}

// Names the place of an error in a pattern.
PatternTree SchemaParser::part_pattern(const Json& pattern, const std::string& path) const {
  if (!pattern.is_string()) refuse(path, "a text is needed");
  try {
    return parse_part_pattern(pattern.get_ref<const std::string&>(), key_);
  } catch (const Error& error) {
    throw error.with(fmt::format("{}: at {}{}", key_, path, error.message().substr(key_.size())));
  }
}

}  // namespace trl::text
