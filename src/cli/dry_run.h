// Describes a run before it is made: its configuration and the origin of each value, its rows, steps, memory,
// time and disk. Nothing is written.
#pragma once
#include "cli/arguments.h"

namespace trl::cli {

// Ends as the run would until its first step: normally, or with the Failure that it would have. all: show
// every configuration key, not only those that are set or matter.
void describe_run(const CommandLine& line, const Config& config, bool all);

}  // namespace trl::cli
