// Reads regular expressions in the dialect of Python's re, as far as they are regular; \p{L} and other
// general categories are accepted, too.
#pragma once
#include <string_view>

#include "text/constraint/pattern_tree.h"

namespace trl::text {

// The whole text is to match. Anchors are accepted where they hold anyway. Throws Error(invalid_config) of
// the key, with the place in the pattern and what is accepted.
PatternTree parse_pattern(std::string_view pattern, std::string_view key);

// As JSON schemas mean it: some part of the text is to match, unless the pattern has anchors. Classes have
// only what they have for ECMAScript, whose dialect schemas are written in, and for validators that use
// another.
PatternTree parse_part_pattern(std::string_view pattern, std::string_view key);

}  // namespace trl::text
