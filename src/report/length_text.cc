// Plots a length profile for a terminal: plain text with block characters, no colours, so that it may be
// piped as well.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text/number.h"
#include "report/chart.h"
#include "report/length_report.h"
#include "report/plan_report.h"

namespace trl::report {

namespace {

constexpr int64_t kFewestColumns = 60;
constexpr std::array<std::string_view, 8> kEighths = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇"};
constexpr std::string_view kThin = " ";

std::string repeated(std::string_view piece, int64_t times) {
  std::string out;
  for (int64_t i = 0; i < times; ++i) out += piece;
  return out;
}

// Words at their places on one line; a word that would touch its neighbour is left out.
class Line {
 public:
  void put(int64_t column, const std::string& word) {
    if (column < static_cast<int64_t>(text_.size()) + (text_.empty() ? 0 : 1)) return;
    text_.resize(static_cast<size_t>(column), ' ');
    text_ += word;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Plots vertical bars, `height` lines high, each as many columns wide as fit.
std::string plot(const telemetry::LengthDistribution& of, int64_t columns, int64_t height) {
  const telemetry::LengthHistogram& bars = of.histogram;
  const int64_t most = *std::ranges::max_element(bars.counts);
  const std::string top = grouped(most, kThin);
  const int64_t margin = static_cast<int64_t>(top.size()) + 2;
  const int64_t count = static_cast<int64_t>(bars.counts.size());
  const int64_t wide = std::clamp<int64_t>((columns - margin) / count, 1, 8);
  std::string out;
  for (int64_t line = height; line-- > 0;) {
    std::string text =
        fmt::format("{:>{}}{}", line == height - 1 ? top : "", top.size(), line == height - 1 ? " ┤" : " │");
    for (const int64_t rows : bars.counts) {
      // Gives each bar with rows at least an eighth.
      const int64_t eighths = rows == 0 ? 0 : std::max<int64_t>(1, rows * height * 8 / most);
      const int64_t here = std::clamp<int64_t>(eighths - line * 8, 0, 8);
      text += repeated(here == 8 ? "█" : kEighths[static_cast<size_t>(here)], wide);
    }
    out += text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  }
  out += fmt::format("{:>{}} └{}\n", "0", top.size(), repeated("─", count * wide));
  Line axis;
  const double per_column = static_cast<double>(bars.width) / static_cast<double>(wide);
  for (const double tick : round_ticks(static_cast<double>(bars.start), static_cast<double>(bars.end()), 8)) {
    const int64_t at = std::lround((tick - static_cast<double>(bars.start)) / per_column);
    axis.put(margin + at, base::short_number(tick, 12));
  }
  out += axis.text() + "\n";
  Line marks;
  for (const int percent : telemetry::kPercentiles) {
    const double at = (of.percentile(percent) - static_cast<double>(bars.start)) / per_column;
    marks.put(margin + static_cast<int64_t>(at), "^" + telemetry::percentile_name(percent));
  }
  out += marks.text() + "\n";
  if (bars.above > 0) {
    out += fmt::format("{:{}}rows beyond the bars, of up to {} tokens: {}\n", "", margin,
                       grouped(of.max, kThin), grouped(bars.above, kThin));
  }
  return out;
}

// Aligns columns as wide as their longest text; the first is left-aligned, the others right-aligned.
std::string aligned(const std::vector<std::vector<std::string>>& lines) {
  std::string out;
  for (const auto& line : lines) {
    for (size_t i = 0; i < line.size(); ++i) {
      size_t width = 0;
      for (const auto& other : lines) width = std::max(width, other[i].size());
      out += i == 0 ? fmt::format("{:<{}}", line[i], width) : fmt::format("  {:>{}}", line[i], width);
    }
    out += "\n";
  }
  return out;
}

// Lists the numbers of every distribution in a line each, or in a column if lines would be too long.
std::string table(const std::vector<telemetry::LengthDistribution>& lengths, int64_t columns) {
  std::vector<std::vector<std::string>> lines(1);
  lines[0] = {"tokens", "min"};
  for (const int percent : telemetry::kPercentiles) lines[0].push_back(telemetry::percentile_name(percent));
  lines[0].insert(lines[0].end(), {"max", "mean"});
  for (const telemetry::LengthDistribution& of : lengths) {
    auto& line = lines.emplace_back();
    line = {of.name, grouped(of.min, kThin)};
    for (const double value : of.percentiles) line.push_back(short_length(value, kThin));
    line.insert(line.end(), {grouped(of.max, kThin), short_length(of.mean, kThin)});
  }
  std::string out = aligned(lines);
  if (static_cast<int64_t>(out.find('\n')) <= columns) return out;
  std::vector<std::vector<std::string>> turned(lines[0].size());
  for (const auto& line : lines)
    for (size_t i = 0; i < line.size(); ++i) turned[i].push_back(line[i]);
  return aligned(turned);
}

std::string bar(const telemetry::LayoutCost& cost, int64_t widest, int64_t columns) {
  const auto at = [&](int64_t tokens) {
    return static_cast<int64_t>(std::llround(static_cast<double>(tokens) * static_cast<double>(columns) /
                                             static_cast<double>(widest)));
  };
  const int64_t useful = at(cost.tokens), padded = at(cost.tokens + cost.padding);
  return repeated("█", useful) + repeated("░", padded - useful) +
         repeated("×", at(cost.tokens + cost.padding + cost.lost) - padded);
}

std::string limit_text(const telemetry::LengthLimit& limit, const telemetry::LengthProfile& profile,
                       int64_t widest, int64_t columns) {
  std::string out = fmt::format("max_length {}: ", limit.max_length);
  out += limit.rows_cut == 0
             ? "no row is cut"
             : fmt::format("{} of rows cut, {} of tokens cut off", percent(limit.rows_cut, profile.rows),
                           percent(limit.tokens_cut, profile.tokens));
  if (limit.peak_bytes > 0) out += "; peak " + base::bytes_text(limit.peak_bytes);
  out = wrapped(out, columns);
  if (limit.rows_dropped > 0) {
    out += wrapped(fmt::format("{} of rows keep no trained token; all but packing drops them",
                               percent(limit.rows_dropped, profile.rows)),
                   columns - 2, "  ");
  }
  for (const telemetry::LayoutCost& cost : limit.layouts) {
    const std::string numbers =
        fmt::format("  {:<15} {:>9} {:>7} {:>7} {:>6}  ", layout_name(cost.layout), grouped(cost.rows, kThin),
                    grouped(cost.steps, kThin), percent(cost.padding, cost.tokens + cost.padding),
                    percent(cost.lost, profile.tokens));
    out += numbers + bar(cost, widest, columns - static_cast<int64_t>(numbers.size())) + "\n";
  }
  return out;
}

}  // namespace

std::string to_text(const telemetry::LengthProfile& profile, int64_t columns) {
  columns = std::max(columns, kFewestColumns);
  std::string out = fmt::format("{}\n{} ({}), {} tokens\n", profile.name, row_count(profile.rows, kThin),
                                profile.format, grouped(profile.tokens, kThin));
  for (size_t i = 0; i < profile.lengths.size(); ++i) {
    out += fmt::format("\nrows by tokens: {}\n", profile.lengths[i].name);
    out += plot(profile.lengths[i], columns, i == 0 ? 8 : 4);
  }
  out += "\n" + table(profile.lengths, columns);
  if (profile.limits.empty()) return out;
  const bool laid_out = !profile.limits.front().layouts.empty();
  out += "\n";
  if (laid_out) {
    out +=
        fmt::format("an epoch in batches of {}{}:\n█ tokens, ░ padding, × lost tokens\n", profile.batch_size,
                    profile.accumulation == 1 ? "" : fmt::format(" × {}", profile.accumulation));
    out += fmt::format("  {:<15} {:>9} {:>7} {:>7} {:>6}\n", "", "rows", "steps", "padding", "lost");
  }
  const int64_t widest = widest_layout(profile);
  for (const telemetry::LengthLimit& limit : profile.limits)
    out += limit_text(limit, profile, widest, columns);
  if (const std::string why(why_peaks_fall(profile)); !why.empty()) out += wrapped(why, columns);
  if (!profile.no_peaks.empty()) out += wrapped("no peak is predicted: " + profile.no_peaks, columns);
  return out;
}

}  // namespace trl::report
