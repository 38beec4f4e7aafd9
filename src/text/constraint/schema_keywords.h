// The keywords of JSON schemas.
#pragma once
#include <initializer_list>
#include <string>
#include <string_view>

#include "base/json/json.h"

namespace trl::text {

// Returns whether a keyword says nothing of a value.
bool is_schema_note(std::string_view keyword);

// Returns whether a keyword with this value says nothing.
bool says_nothing(std::string_view keyword, const base::Json& value);

// Returns whether a keyword says something that a pattern keeps.
bool is_schema_keyword(std::string_view keyword);
std::string all_schema_keywords();  // with commas

// Returns the value of a keyword; null: the schema has none.
const base::Json* find_keyword(const base::Json& schema, std::string_view name);

// Returns whether a schema has other keywords than this one that say something.
bool says_more(const base::Json& schema, std::string_view than);

base::Json without_keywords(const base::Json& schema, std::initializer_list<std::string_view> names);

}  // namespace trl::text
