// Whether two JSON schemas exclude each other.
#pragma once
#include "base/json/json.h"

namespace trl::text {

// Returns whether a text that parse_schema() writes for `a` is never valid under `b`. false: it does not
// show.
bool excludes_schema(const base::Json& root, const base::Json& a, const base::Json& b);

}  // namespace trl::text
