// The nearest spelling of an unknown name, for error messages.
#pragma once
#include <span>
#include <string>
#include <string_view>

namespace trl::base {

// Returns the candidate with the smallest Damerau-Levenshtein distance to name, or empty if none is below the
// limit.
std::string_view nearest(std::string_view name, std::span<const std::string_view> candidates, size_t limit);
// Uses a limit that suits a key: two letters, or a third of a long name.
std::string_view nearest(std::string_view name, std::span<const std::string_view> candidates);
std::string join(std::span<const std::string_view> names, std::string_view separator = ", ");

}  // namespace trl::base
