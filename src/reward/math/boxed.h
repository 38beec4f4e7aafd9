// The content of \boxed{...} and \fbox{...}.
#pragma once
#include <string>
#include <string_view>

namespace trl::reward::math {

// Returns the contents joined by commas, from left to right, without one that repeats its neighbour; the text
// if it has no box.
std::string boxed_contents(std::string_view text);

// Returns likewise the last box and the boxes before it that belong to it: a box less than ten characters
// before the next one, or less than seventy if the contents differ and a comma, a semicolon, "and" or "or" is
// between.
std::string last_boxed(std::string_view text);

}  // namespace trl::reward::math
