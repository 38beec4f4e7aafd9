// See length_counts.h.
#include "data/lengths/length_counts.h"

#include <algorithm>
#include <cmath>

namespace trl::data {

namespace {

constexpr int64_t kMostBars = 60;

// The smallest of 1, 2, 5, 10, 20, 50 ... with which no more than kMostBars bars cover the span.
int64_t bar_width(int64_t span) {
  for (int64_t power = 1;; power *= 10) {
    for (const int64_t unit : {1, 2, 5}) {
      if (span / (unit * power) < kMostBars) return unit * power;
    }
  }
}

}  // namespace

int64_t LengthCounts::rows_above(int64_t length) const {
  int64_t rows = 0;
  for (auto at = counts_.upper_bound(length); at != counts_.end(); ++at) rows += at->second;
  return rows;
}

int64_t LengthCounts::tokens_above(int64_t length) const {
  int64_t tokens = 0;
  for (auto at = counts_.upper_bound(length); at != counts_.end(); ++at)
    tokens += (at->first - length) * at->second;
  return tokens;
}

int64_t LengthCounts::value_at(int64_t rank) const {
  for (const auto& [length, count] : counts_) {
    rank -= count;
    if (rank < 0) return length;
  }
  return counts_.rbegin()->first;
}

// Follows numpy's default: place (n - 1) * percent / 100 between the sorted values, linearly.
double LengthCounts::percentile(int percent) const {
  const int64_t place = (rows_ - 1) * percent;
  const double low = static_cast<double>(value_at(place / 100));
  const double high = static_cast<double>(value_at(std::min(place / 100 + 1, rows_ - 1)));
  return low + (high - low) * (static_cast<double>(place % 100) / 100);
}

telemetry::LengthDistribution LengthCounts::distribution(std::string name) const {
  telemetry::LengthDistribution out;
  out.name = std::move(name);
  out.rows = rows_;
  out.tokens = tokens_above(0);
  out.min = counts_.begin()->first;
  out.max = counts_.rbegin()->first;
  out.mean = static_cast<double>(out.tokens) / static_cast<double>(rows_);
  for (size_t i = 0; i < telemetry::kPercentiles.size(); ++i)
    out.percentiles[i] = percentile(telemetry::kPercentiles[i]);
  out.histogram = histogram(out.min, out.max, out.percentiles.back());
  return out;
}

// Makes bars from 0, or from the shortest row if all rows are of about the same length. If the longest row is
// more than twice the 99th percentile, the bars end there: a few rows would squeeze all others into one bar.
telemetry::LengthHistogram LengthCounts::histogram(int64_t low, int64_t high, double p99) const {
  telemetry::LengthHistogram out;
  const int64_t end = static_cast<double>(high) > 2 * p99 ? static_cast<int64_t>(std::ceil(p99)) : high;
  const int64_t start = low * 4 <= end ? 0 : low;
  out.width = bar_width(end - start);
  out.start = start / out.width * out.width;
  out.counts.resize(static_cast<size_t>((end - out.start) / out.width + 1));
  for (const auto& [length, count] : counts_) {
    const size_t bar = static_cast<size_t>((length - out.start) / out.width);
    (bar < out.counts.size() ? out.counts[bar] : out.above) += count;
  }
  return out;
}

}  // namespace trl::data
