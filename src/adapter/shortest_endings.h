// Describes a list of modules by the endings of names that select the same ones.
#pragma once
#include <string>
#include <vector>

namespace trl::adapter {

// names: the modules that are selected; others: the modules that must not be. Endings begin after a dot, or
// are whole names. PEFT's own choice (peft/tuners/tuners_utils.py, _find_minimal_target_modules), sorted.
std::vector<std::string> shortest_endings(const std::vector<std::string>& names,
                                          const std::vector<std::string>& others);

}  // namespace trl::adapter
