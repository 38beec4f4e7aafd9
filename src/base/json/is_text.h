// Comparison of a value of JSON with a text.
#pragma once
#include <string>
#include <string_view>

#include "base/json/json.h"

namespace trl::base {

// Returns whether a value is this text. Unlike ==, which makes a value of the text first and ends the process
// without memory for it.
inline bool is_text(const Json& value, std::string_view text) {
  return value.is_string() && value.get_ref<const std::string&>() == text;
}

}  // namespace trl::base
