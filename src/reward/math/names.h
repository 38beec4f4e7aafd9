// Commands of LaTeX that the grammar knows by name.
#pragma once
#include <string_view>

namespace trl::reward::math {

bool is_symbol_name(std::string_view name);    // alpha, Delta, angle, ...
bool is_function_name(std::string_view name);  // sin, sqrt, max, ...
bool begins_factor(std::string_view name);     // also frac, pi, infty, ...

}  // namespace trl::reward::math
