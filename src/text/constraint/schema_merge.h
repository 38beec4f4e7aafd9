// Makes one JSON schema of two.
#pragma once
#include <string>

#include "base/json/json.h"

namespace trl::text {

// Returns a schema that says what both say. conflict: a keyword of both that one schema cannot have; empty:
// none.
base::Json both_schemas(const base::Json& a, const base::Json& b, std::string& conflict);

}  // namespace trl::text
