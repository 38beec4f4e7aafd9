// JSON schemas as patterns.
#pragma once
#include <string_view>

#include "base/json/json.h"
#include "text/constraint/pattern_tree.h"

namespace trl::text {

// JSON texts that are valid under the schema, of draft 4 to 2020-12: properties in its order, and others
// behind them if additionalProperties is given and not false; one space or none after commas and colons;
// values without a schema nested at most 4 deep, and schemas that hold themselves at most 5. Throws
// Error(invalid_config) of the key for a keyword that this cannot enforce, with its path.
PatternTree parse_schema(const base::Json& schema, std::string_view key);

}  // namespace trl::text
