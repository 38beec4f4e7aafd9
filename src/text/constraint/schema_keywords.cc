#include "text/constraint/schema_keywords.h"

#include <algorithm>
#include <array>

namespace trl::text {

namespace {

using base::Json;

constexpr std::array kNotes = {"title",
                               "description",
                               "default",
                               "examples",
                               "example",
                               "$schema",
                               "$id",
                               "id",
                               "$anchor",
                               "$comment",
                               "deprecated",
                               "readOnly",
                               "writeOnly",
                               "$defs",
                               "definitions",
                               "discriminator",
                               "$vocabulary",
                               "contentEncoding",
                               "contentMediaType",
                               "contentSchema"};

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

}  // namespace

bool is_schema_note(std::string_view keyword) { return std::ranges::find(kNotes, keyword) != kNotes.end(); }

bool says_nothing(std::string_view keyword, const Json& value) {
  return is_schema_note(keyword) || (keyword == "uniqueItems" && value == false);
}

bool is_schema_keyword(std::string_view keyword) {
  return std::ranges::find(kKeywords, keyword) != kKeywords.end();
}

std::string all_schema_keywords() {
  std::string all;
  for (const char* const one : kKeywords) all += (all.empty() ? "" : ", ") + std::string(one);
  return all;
}

const Json* find_keyword(const Json& schema, std::string_view name) {
  if (!schema.is_object()) return nullptr;
  const auto found = schema.find(std::string(name));
  return found == schema.end() ? nullptr : &*found;
}

bool says_more(const Json& schema, std::string_view than) {
  for (const auto& [name, value] : schema.items())
    if (name != than && !says_nothing(name, value)) return true;
  return false;
}

Json without_keywords(const Json& schema, std::initializer_list<std::string_view> names) {
  Json rest = Json::object();
  for (const auto& [name, value] : schema.items())
    if (std::ranges::find(names, name) == names.end()) rest.emplace(name, Json(value));
  return rest;
}

}  // namespace trl::text
