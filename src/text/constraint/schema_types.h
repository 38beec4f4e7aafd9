// The types of values in JSON schemas.
#pragma once
#include <string_view>

#include "base/json/json.h"

namespace trl::text {

// By JSON schema's names of types; a number without a fraction is an integer, too.
bool is_of_schema_type(const base::Json& value, std::string_view type);

// Returns the types of the keyword's value, a list or one name.
base::Json as_type_list(const base::Json& value);

// Returns the types that both values of the keyword have; an integer is a number.
base::Json common_types(const base::Json& a, const base::Json& b);

}  // namespace trl::text
