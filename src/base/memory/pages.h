// Memory that the start of a process leaves resident although little of it is needed again.
#pragma once

namespace trl::base {

// Gives back the free pages of malloc, and the pages of the shared libraries' code and constants, nearly all
// of which the start has touched. Pages that are read again are loaded from the file. Any thread.
void give_back_pages() noexcept;

// Gives back only the free pages of malloc, which cost nothing to read again.
void give_back_heap() noexcept;

}  // namespace trl::base
