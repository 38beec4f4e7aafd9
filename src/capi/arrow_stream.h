// An Arrow stream of the host behind functions that throw nothing.
#pragma once
#include "io/arrow_abi.h"

namespace trl::capi {

// Takes stream over: its release is NULL then. What one of its functions throws is kept as the failure of the
// call that runs on this thread, and the function answers with EIO.
ArrowArrayStream guarded_stream(ArrowArrayStream* stream);

}  // namespace trl::capi
