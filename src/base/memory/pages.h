// Memory that the start of a process leaves resident although little of it is needed again.
#pragma once

namespace trl::base {

// Gives it back: the free pages of malloc, and those of the shared libraries' code and constants, which start
// has touched nearly all of. Pages that are read again come back from the file. Any thread.
void give_back_pages() noexcept;

// Gives back the free pages of malloc alone, which cost nothing to read again.
void give_back_heap() noexcept;

}  // namespace trl::base
