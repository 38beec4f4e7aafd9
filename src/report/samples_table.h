// The samples of a run as a table of its report.
#pragma once
#include <string>
#include <vector>

#include "telemetry/samples.h"

namespace trl::report {

// HTML, the newest step first; empty where there are none.
std::string samples_section(const std::vector<telemetry::Sample>& samples);

}  // namespace trl::report
