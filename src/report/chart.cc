#include "report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/text/number.h"

namespace trl::report {

namespace {

constexpr double kWidth = 620, kHeight = 260;
constexpr double kLeft = 66, kRight = 14, kTop = 14, kBottom = 34;
// Values whose distance, relative to their size, is less than this have the same height.
constexpr double kResolution = 1e-9;
constexpr size_t kMostPoints = 600;  // of a line; in a longer line each is the mean of several

// One axis: values to places, and the ticks on it.
struct Axis {
  double low = 0, high = 1;
  double first = 0, last = 1;  // places of low and high
  std::vector<double> ticks;
  double at(double value) const { return first + (value - low) / (high - low) * (last - first); }
};

Axis make_axis(double low, double high, double first, double last, int about) {
  const double most = std::max(std::abs(low), std::abs(high));
  if (!(high - low > most * kResolution)) {
    const double room = most == 0 ? 1 : most * 0.05;
    low -= room;
    high += room;
  }
  return {low, high, first, last, round_ticks(low, high, about)};
}

std::vector<Point> thinned(const std::vector<Point>& points) {
  if (points.size() <= kMostPoints) return points;
  const size_t group = (points.size() + kMostPoints - 1) / kMostPoints;
  std::vector<Point> out;
  for (size_t begin = 0; begin < points.size(); begin += group) {
    const size_t end = std::min(points.size(), begin + group);
    Point mean{points[end - 1].step, 0};
    for (size_t i = begin; i < end; ++i) mean.value += points[i].value / static_cast<double>(end - begin);
    out.push_back(mean);
  }
  return out;
}

// Returns the line, broken at values that are not finite.
std::string path_of(const std::vector<Point>& points, const Axis& x, const Axis& y) {
  std::string path;
  bool pen_down = false;
  for (const Point& point : points) {
    if (std::isfinite(point.value))
      path += fmt::format("{}{:.1f} {:.1f}", pen_down ? "L" : "M", x.at(point.step), y.at(point.value));
    pen_down = std::isfinite(point.value);
  }
  return path;
}

// Returns a dot for each point, hidden until the pointer is on it, with its value.
std::string dots_of(const Series& series, const std::vector<Point>& points, const Axis& x, const Axis& y) {
  std::string out;
  for (const Point& point : points) {
    const bool finite = std::isfinite(point.value);
    out += fmt::format(
        "<g class=\"dot {}\"><rect x=\"{:.1f}\" y=\"{}\" width=\"{:.1f}\" height=\"{:.1f}\"/><circle "
        "cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\"/><title>step {}\n{}: {}</title></g>\n",
        finite ? series.style : "lost", x.at(point.step) - 4, kTop, 8.0, kHeight - kTop - kBottom,
        x.at(point.step), finite ? y.at(point.value) : y.first, 3.5, base::short_number(point.step, 10),
        html_text(series.name), base::short_number(point.value, 6));
  }
  return out;
}

std::string axes(const Axis& x, const Axis& y) {
  std::string out;
  for (const double tick : y.ticks) {
    out += fmt::format(
        "<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/><text class=\"y\" x=\"{}\" "
        "y=\"{:.1f}\">{}</text>\n",
        kLeft, kWidth - kRight, y.at(tick), y.at(tick), kLeft - 8, y.at(tick) + 4,
        base::short_number(tick, 6));
  }
  for (const double tick : x.ticks) {
    if (std::trunc(tick) != tick) continue;  // half steps do not exist
    out += fmt::format(
        "<line class=\"tick\" x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{}\" y2=\"{}\"/><text class=\"x\" "
        "x=\"{:.1f}\" y=\"{}\">{}</text>\n",
        x.at(tick), x.at(tick), kHeight - kBottom, kHeight - kBottom + 5, x.at(tick), kHeight - kBottom + 19,
        base::short_number(tick, 10));
  }
  out += fmt::format("<text class=\"y\" x=\"{}\" y=\"{}\">step</text>\n", kLeft - 8, kHeight - kBottom + 19);
  return out + fmt::format("<line class=\"axis\" x1=\"{}\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>\n", kLeft,
                           kWidth - kRight, kHeight - kBottom, kHeight - kBottom);
}

}  // namespace

std::string grouped(int64_t value, std::string_view space) {
  std::string digits = std::to_string(value);
  for (size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, space);
  return digits;
}

std::string row_count(int64_t rows, std::string_view space) {
  return grouped(rows, space) + (rows == 1 ? " row" : " rows");
}

std::string html_text(std::string_view text) {
  std::string out;
  for (const char c : text) {
    out += c == '&'   ? "&amp;"
           : c == '<' ? "&lt;"
           : c == '>' ? "&gt;"
           : c == '"' ? "&quot;"
                      : std::string(1, c);
  }
  return out;
}

std::vector<double> round_ticks(double low, double high, int about) {
  const double wanted = (high - low) / about;
  const double power = std::pow(10.0, std::floor(std::log10(wanted)));
  double unit = 10;
  for (const double nice : {5.0, 2.0, 1.0})
    if (nice * power >= wanted * (1 - 1e-9)) unit = nice;
  std::vector<double> ticks;
  const double step = unit * power, begin = std::ceil(low / step);
  for (int i = 0; i <= 2 * about && (begin + i) * step <= high * (1 + 1e-12); ++i)
    ticks.push_back((begin + i) * step);
  return ticks;
}

std::string to_svg(const Chart& chart) {
  double first = INFINITY, last = -INFINITY, low = chart.from_zero ? 0 : INFINITY, high = -INFINITY;
  for (const Series& series : chart.series) {
    for (const Point& point : series.points) {
      first = std::min(first, point.step);
      last = std::max(last, point.step);
      if (!std::isfinite(point.value)) continue;
      low = std::min(low, point.value);
      high = std::max(high, point.value);
    }
  }
  if (!(high >= low)) low = 0, high = 1;  // no finite value
  const double room = (high - low) * 0.06;
  const Axis x = make_axis(first, last, kLeft, kWidth - kRight, 6);
  const Axis y = make_axis(chart.from_zero ? low : low - room, high + room, kHeight - kBottom, kTop, 5);
  std::string out = fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n", kWidth,
                                kHeight, html_text(chart.title));
  out += axes(x, y);
  for (const Series& series : chart.series) {
    out += fmt::format("<path class=\"line {}\" d=\"{}\"/>\n", series.style,
                       path_of(thinned(series.points), x, y));
  }
  for (const Series& series : chart.series) out += dots_of(series, thinned(series.points), x, y);
  return out + "</svg>\n";
}

}  // namespace trl::report
