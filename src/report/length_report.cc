// Writes the numbers of a length profile.
#include "report/length_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/chart.h"
#include "telemetry/record.h"

namespace trl::report {

// Formats a share; one that is neither 0 nor 1 is never rounded to look like 0 or 1.
std::string percent(int64_t part, int64_t whole) {
  const double value = telemetry::share(part, whole) * 100;
  if (part == 0 || part == whole) return part == 0 ? "0%" : "100%";
  if (value < 0.1) return "<0.1%";
  if (value > 99.9) return ">99.9%";
  return fmt::format("{:.1f}%", value);
}

std::string short_length(double length, std::string_view space) {
  if (length >= 1000) return grouped(std::llround(length), space);
  const double rounded = telemetry::round_decimals(length, 1);
  return fmt::format("{:.{}f}", rounded, rounded == std::floor(rounded) ? 0 : 1);
}

std::string_view why_peaks_fall(const telemetry::LengthProfile& profile) {
  int64_t highest = 0;
  for (const telemetry::LengthLimit& limit : profile.limits) {
    if (limit.peak_bytes > 0 && limit.peak_bytes < highest)
      return "A longer max_length can have a lower peak: in a batch of many tokens, 2048 or more, weights "
             "are kept "
             "in the type that is computed in only while their layer is at work, and feed-forward parts go "
             "by "
             "tiles.";
    highest = std::max(highest, limit.peak_bytes);
  }
  return {};
}

int64_t widest_layout(const telemetry::LengthProfile& profile) {
  int64_t widest = 1;
  for (const telemetry::LengthLimit& limit : profile.limits) {
    for (const telemetry::LayoutCost& cost : limit.layouts)
      widest = std::max(widest, cost.tokens + cost.padding + cost.lost);
  }
  return widest;
}

}  // namespace trl::report
