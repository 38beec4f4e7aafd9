// Resident memory of this process, in bytes, as the system counts it.
#pragma once
#include <cstdint>

namespace trl::base {

int64_t resident_bytes() noexcept;       // now; 0: not known
int64_t peak_resident_bytes() noexcept;  // the most since the process began

}  // namespace trl::base
