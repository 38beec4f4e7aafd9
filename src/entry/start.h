// Gives back pages of libraries that the start of the process leaves resident and that are hardly needed
// again.
#pragma once
#include <cstdint>

namespace trl::entry {

// Returns the resident bytes of the process with these pages as long as no model was opened, then 0. Gives
// the pages back. A small run never takes as much.
int64_t start_to_come();

// Gives them back before a model is opened, so that a run does not hold them in addition to its own memory.
void leave_start_behind();

}  // namespace trl::entry
