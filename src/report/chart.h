// A line chart over the steps of a run, as SVG text: axes with round ticks, and the number under the pointer.
// Colours are CSS variables of the page around it.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace trl::report {

struct Point {
  double step = 0;
  double value = 0;  // not finite: a gap in the line, marked at the bottom
};

struct Series {
  std::string name;  // in the legend and under the pointer
  std::vector<Point> points;
  std::string style = "";  // CSS classes of the line and its dots
};

struct Chart {
  std::string title;
  std::vector<Series> series;
  bool from_zero = false;  // the vertical axis begins at 0
};

std::string to_svg(const Chart& chart);

inline constexpr std::string_view kThinSpace = "\u2009";
std::string grouped(int64_t value, std::string_view space = kThinSpace);   // 1234567 -> "1 234 567"
std::string row_count(int64_t rows, std::string_view space = kThinSpace);  // "1 row", "1 234 rows"
std::string html_text(std::string_view text);                              // with &, <, > and quotes escaped
// Returns multiples of 1, 2 or 5 times a power of ten within [low, high], about `about` of them.
std::vector<double> round_ticks(double low, double high, int about);

}  // namespace trl::report
