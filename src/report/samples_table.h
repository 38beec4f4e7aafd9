// Shows the samples of a run as a table of its report.
#pragma once
#include <string>
#include <vector>

#include "telemetry/samples.h"

namespace trl::report {

// Returns HTML, the newest step first; empty if there are no samples.
std::string samples_section(const std::vector<telemetry::Sample>& samples);

}  // namespace trl::report
