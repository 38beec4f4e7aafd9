// Draws, for each max_length, a bar of tokens, padding and lost tokens under every layout: a part of the
// picture of a length profile.
#pragma once
#include <string>

#include "telemetry/length_profile.h"

namespace trl::report {

struct LengthCosts {
  std::string shapes;
  double end;  // of the shapes, from above
};

// y: the place of the first line.
LengthCosts length_costs(const telemetry::LengthProfile& profile, double y);

}  // namespace trl::report
