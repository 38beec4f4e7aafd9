// Shows a length profile: a plot for a terminal, a picture and a page.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "telemetry/length_profile.h"

namespace trl::report {

// A plot for a terminal of this width; at least 60 columns are used.
std::string to_text(const telemetry::LengthProfile& profile, int64_t columns);
std::string to_svg(const telemetry::LengthProfile& profile);   // a picture that needs no page
std::string to_html(const telemetry::LengthProfile& profile);  // a page that needs no other file

// Shared by these: 0.0312 -> "3.1%"; a length with at most one decimal, and from 1000 on with no decimal but
// spaces.
std::string percent(int64_t part, int64_t whole);
std::string short_length(double length, std::string_view space);
// Explains why a longer max_length has a lower predicted peak than a shorter one; empty: no peak falls.
std::string_view why_peaks_fall(const telemetry::LengthProfile& profile);
// Does the same as to_svg, for a page that has its titles and numbers.
std::string length_figure(const telemetry::LengthProfile& profile);
// Returns the largest sum of tokens, padding and lost tokens of all layouts.
int64_t widest_layout(const telemetry::LengthProfile& profile);

}  // namespace trl::report
