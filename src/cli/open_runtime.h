// A runtime whose log lines go to stderr, those that log_level and quiet let through, and on a terminal its
// progress.
#pragma once
#include "cli/handles.h"

namespace trl::cli {

void open_runtime(const Config& config, Runtime& runtime);

}  // namespace trl::cli
