// Draws how long rows are, with percentiles: a part of the picture of a length profile.
#pragma once
#include <string>
#include <string_view>

#include "report/svg_shapes.h"
#include "telemetry/length_profile.h"

namespace trl::report {

// kind: the class of the bars. Returns shapes within the frame.
std::string length_histogram(const telemetry::LengthDistribution& of, Frame frame, std::string_view kind);

}  // namespace trl::report
