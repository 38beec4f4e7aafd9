// A server that runs, and that a run does not ask.
#pragma once
#include "base/log.h"
#include "run/server/exchange.h"

namespace trl::run {

// Says in the log if a server answers at the address that exchange has, for a run that writes its completions
// itself. Waits for a second at most.
void tell_unused_server(Exchange& exchange, base::LogSink& log);

}  // namespace trl::run
