// Translates the names of Unicode properties in Oniguruma's patterns into PCRE2's words.
#pragma once
#include <string>
#include <string_view>

namespace trl::text {

// Returns empty if the property is not supported.
std::string property_name(std::string_view oniguruma);
// Returns the characters that a property (in PCRE2's words) has gained since PCRE2's version of Unicode, as
// items of a character class; may be empty.
std::string_view newer_characters(std::string_view property);

}  // namespace trl::text
