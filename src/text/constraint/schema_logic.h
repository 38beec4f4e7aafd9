// Combines JSON schemas: one that says what two say together, and whether two exclude each other.
#pragma once
#include <string>
#include <string_view>

#include "base/json/json.h"

namespace trl::text {

// Returns the place that "#/..." names; null: the schema has none.
const base::Json* referred_place(const base::Json& root, std::string_view reference);

// By JSON schema's names of types; a number without a fraction is an integer, too.
bool is_of_schema_type(const base::Json& value, std::string_view type);

// Returns a schema that says what both say. conflict: a keyword of both that one schema cannot have; empty:
// none.
base::Json both_schemas(const base::Json& a, const base::Json& b, std::string& conflict);

// Returns whether a text that parse_schema() writes for `a` is never valid under `b`. false: it does not
// show.
bool excludes_schema(const base::Json& root, const base::Json& a, const base::Json& b);

}  // namespace trl::text
