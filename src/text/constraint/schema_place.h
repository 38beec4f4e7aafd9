// Places in a JSON schema that other parts of it refer to.
#pragma once
#include <string_view>

#include "base/json/json.h"

namespace trl::text {

// Returns the place that "#/..." names; null: the schema has none.
const base::Json* referred_place(const base::Json& root, std::string_view reference);

}  // namespace trl::text
