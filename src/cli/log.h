// A runtime whose log lines go to stderr.
#pragma once
#include "cli/handles.h"

namespace trl::cli {

void open_runtime(const Config& config, Runtime& runtime);

}  // namespace trl::cli
