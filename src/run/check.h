// Refuses runs before rows and weights are read.
#pragma once
#include "config/run_options.h"
#include "run/environment.h"

namespace trl::run {

// Refuses options that exclude each other, folders that cannot be written, an output directory of another
// run, a missing checkpoint to resume from or reference, and features that this build or machine lacks.
// options: from with_whole_paths(). Writes nothing. Throws Error with the key.
void check_run(Environment& environment, const config::RunOptions& options);

}  // namespace trl::run
