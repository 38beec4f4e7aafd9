// Makes LaTeX uniform before it is parsed: commands that change only its look go, words become signs.
#pragma once
#include <string>
#include <string_view>

#include "reward/math/parse.h"

namespace trl::reward::math {

// Turns \dfrac into \frac, fonts into \text, "and" and "or" into a comma, "percent" into \%, {,} into a
// comma; drops \left and \right, dollars, quotes, \displaystyle, and units at the end.
// lenient: sqrt(2) is \sqrt(2).
std::string clean_latex(std::string_view latex, Dialect dialect);

// Removes units: all from the first \text{...} on, if the LaTeX ends with a text, and then up to two words
// such as cm or hours. Keeps LaTeX that would become empty.
std::string_view without_units(std::string_view latex);

}  // namespace trl::reward::math
