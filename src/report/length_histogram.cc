#include "report/length_histogram.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "report/chart.h"
#include "report/length_report.h"

namespace trl::report {

namespace {

class HistogramFigure {
 public:
  HistogramFigure(const telemetry::LengthDistribution& of, Frame frame, std::string_view kind)
      : of_(of), bars_(of.histogram), frame_(frame), kind_(kind) {
    most_ = *std::ranges::max_element(bars_.counts);
    const double label = 7.5 * static_cast<double>(grouped(most_, " ").size()) + 8;
    const double beyond = bars_.above > 0 ? 44 : 0;
    plot_ = {frame.x + label, frame.y, frame.width - label - beyond, 0};
    place_marks();
    const double above = 40 + kMarkLine * static_cast<double>(levels_);
    plot_.y += above;
    plot_.height = frame.height - above - 24;
  }

  std::string draw() const {
    return svg::heading(frame_.x, frame_.y + 12, of_.name, "rows by number of tokens") + grid() + columns() +
           beyond() + marks();
  }

 private:
  static constexpr double kMarkLine = 14;
  struct Mark {
    double x, middle;  // of the line; of the words
    size_t level;      // of the words, from below
    std::string words;
  };

  double x_at(double length) const {
    return plot_.x + (length - static_cast<double>(bars_.start)) /
                         static_cast<double>(bars_.end() - bars_.start) * plot_.width;
  }
  // Returns the place of a length on the axis: in the middle of its bar if the bar has only that length.
  double place(double length) const { return x_at(length + (bars_.width == 1 ? 0.5 : 0)); }
  double y_at(double rows) const { return plot_.y + plot_.height * (1 - rows / static_cast<double>(most_)); }

  // Moves words that would touch others up a line.
  void place_marks() {
    std::array<double, 4> taken{-1e9, -1e9, -1e9, -1e9};
    for (const int percent :
         plot_.width > 600 ? std::vector{5, 25, 50, 75, 90, 95, 99} : std::vector{50, 95}) {
      const double length = of_.percentile(percent);
      Mark mark{place(length), 0, 0,
                fmt::format("{} {}", telemetry::percentile_name(percent), short_length(length, kThinSpace))};
      const double half = 3.7 * static_cast<double>(mark.words.size());
      mark.middle = std::clamp(mark.x, plot_.x + half, plot_.x + plot_.width - half);
      while (mark.level + 1 < taken.size() && mark.middle - half < taken[mark.level] + 6) ++mark.level;
      taken[mark.level] = mark.middle + half;
      levels_ = std::max(levels_, mark.level);
      marks_.push_back(std::move(mark));
    }
  }

  std::string grid() const {
    std::string out;
    for (const double tick : round_ticks(0, static_cast<double>(most_), 3)) {
      if (tick == 0 || std::trunc(tick) != tick) continue;
      out += svg::line("rule", plot_.x, y_at(tick), plot_.x + plot_.width, y_at(tick));
      out += svg::text(plot_.x - 8, y_at(tick) + 4, "small end", grouped(std::llround(tick)));
    }
    const double foot = plot_.y + plot_.height;
    const int about = static_cast<int>(plot_.width / 80);
    for (const double tick :
         round_ticks(static_cast<double>(bars_.start), static_cast<double>(bars_.end()), about)) {
      if (std::trunc(tick) != tick || place(tick) > plot_.x + plot_.width) continue;
      out += svg::line("axis", place(tick), foot, place(tick), foot + 4);
      out += svg::text(place(tick), foot + 18, "small mid", grouped(std::llround(tick)));
    }
    return out + svg::line("axis", plot_.x, foot, plot_.x + plot_.width, foot);
  }

  std::string columns() const {
    std::string out;
    const double width = plot_.width / static_cast<double>(bars_.counts.size());
    for (size_t i = 0; i < bars_.counts.size(); ++i) {
      if (bars_.counts[i] == 0) continue;
      const int64_t from = bars_.start + static_cast<int64_t>(i) * bars_.width;
      const double top = std::min(y_at(static_cast<double>(bars_.counts[i])), plot_.y + plot_.height - 1);
      const std::string span =
          bars_.width == 1 ? std::to_string(from) : fmt::format("{} to {}", from, from + bars_.width - 1);
      out += svg::box(kind_, x_at(static_cast<double>(from)) + 0.5, top, std::max(0.5, width - 1),
                      plot_.y + plot_.height - top,
                      fmt::format("{} tokens: {}", span, row_count(bars_.counts[i])));
    }
    return out;
  }

  // Returns a separate bar for the few rows that are far longer.
  std::string beyond() const {
    if (bars_.above == 0) return {};
    const double x = plot_.x + plot_.width + 16, foot = plot_.y + plot_.height;
    const double top = std::clamp(y_at(static_cast<double>(bars_.above)), plot_.y, foot - 2);
    return svg::box("beyond", x, top, 22, foot - top,
                    fmt::format("{} {} longer, up to {} tokens", row_count(bars_.above),
                                bars_.above == 1 ? "is" : "are", grouped(of_.max))) +
           svg::text(x + 11, foot + 18, "small mid", "longer") +
           svg::text(x + 11, top - 5, "small mid", grouped(bars_.above));
  }

  std::string marks() const {
    std::string out;
    for (const Mark& mark : marks_) {
      const double y = plot_.y - 7 - kMarkLine * static_cast<double>(mark.level);
      out += svg::line("mark", mark.x, y + 3, mark.x, plot_.y + plot_.height);
      out += svg::text(mark.middle, y, "small mid", mark.words);
    }
    return out;
  }

  const telemetry::LengthDistribution& of_;
  const telemetry::LengthHistogram& bars_;
  const Frame frame_;
  std::string_view kind_;
  int64_t most_ = 0;
  Frame plot_;
  std::vector<Mark> marks_;
  size_t levels_ = 0;
};

}  // namespace

std::string length_histogram(const telemetry::LengthDistribution& of, Frame frame, std::string_view kind) {
  return HistogramFigure(of, frame, kind).draw();
}

}  // namespace trl::report
