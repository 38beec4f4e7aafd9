// The nearest spelling of an unknown name, for error messages.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace trl::base {

// The candidate with the smallest Damerau-Levenshtein distance to name, or empty if none is close.
std::string_view nearest(std::string_view name, std::span<const std::string_view> candidates);
std::string join(std::span<const std::string_view> names, std::string_view separator = ", ");

}  // namespace trl::base
