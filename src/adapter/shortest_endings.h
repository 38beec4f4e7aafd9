// A list of modules as the endings of names that select the same ones.
#pragma once
#include <string>
#include <vector>

namespace trl::adapter {

// names: of the modules that are selected; others: of those that must not be. Endings begin behind a dot, or
// are whole names. PEFT's own choice (peft/tuners/tuners_utils.py, _find_minimal_target_modules), sorted.
std::vector<std::string> shortest_endings(const std::vector<std::string>& names,
                                          const std::vector<std::string>& others);

}  // namespace trl::adapter
