// What a run would be, before it is made: its configuration and where each value is from, its rows, steps,
// memory, time and disk. Nothing is written.
#pragma once
#include "cli/arguments.h"

namespace trl::cli {

// Ends as the run would until its first step: with nothing, or with the Failure that it would have. all: the
// configuration has every key, not only those that are set or matter.
void describe_run(const CommandLine& line, const Config& config, bool all);

}  // namespace trl::cli
