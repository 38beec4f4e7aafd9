// Pages of the libraries that the start of the process leaves resident and that are hardly needed again.
#pragma once
#include <cstdint>

namespace trl::entry {

// What is resident of the process with these pages, in bytes, as long as no model was opened; 0 from then on.
// Gives them back. A small run never has as much.
int64_t start_to_come();

// Gives them back before a model is opened, so that no run has them beside its own memory.
void leave_start_behind();

}  // namespace trl::entry
