// Wraps an Arrow stream of the host in functions that do not throw.
#pragma once
#include "io/arrow_abi.h"

namespace trl::capi {

// Takes stream over and sets its release to NULL. If one of its functions throws, the exception is kept as
// the failure of the call that runs on this thread, and the function returns EIO.
ArrowArrayStream guarded_stream(ArrowArrayStream* stream);

}  // namespace trl::capi
