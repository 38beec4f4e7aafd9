// LaTeX before it is read: commands that change nothing but the look go, words become signs.
#pragma once
#include <string>
#include <string_view>

namespace trl::reward::math {

// Turns \dfrac into \frac, fonts into \text, "and" and "or" into a comma, "percent" into \%, {,} into a
// comma; drops \left and \right, dollars, quotes and \displaystyle, and units at the end. The answer may be
// unchanged otherwise.
std::string clean_latex(std::string_view latex);

// Removes what is written after a value: from the first \text{...} on if a text ends it, then up to two words
// such as cm or hours. Leaves a text that would be empty then.
std::string_view without_units(std::string_view latex);

}  // namespace trl::reward::math
