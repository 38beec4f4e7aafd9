// Draws a length profile as a picture: histograms with their percentiles, and for each max_length a bar of
// tokens, padding and lost tokens under every layout. Colours are written out, once for light and once for
// dark, since a picture in a page has no access to variables of that page.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/files/files.h"
#include "base/text/number.h"
#include "report/chart.h"
#include "report/length_report.h"

namespace trl::report {

namespace {

constexpr double kFigureWidth = 960, kEdge = 32;
constexpr double kInner = kFigureWidth - 2 * kEdge;

constexpr std::string_view kFigureStyle = R"css(
.lengths { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
.lengths text { font-size: 13px; fill: #5b6577; font-variant-numeric: tabular-nums; }
.lengths .page { fill: #ffffff; stroke: #e3e7ee; }
.lengths .title { font-size: 22px; font-weight: 700; fill: #161c27; }
.lengths .head { font-size: 14px; font-weight: 600; fill: #161c27; }
.lengths .unit { font-weight: 400; fill: #5b6577; }
.lengths .strong { font-weight: 600; fill: #161c27; }
.lengths .small { font-size: 12px; }
.lengths .end { text-anchor: end; }
.lengths .mid { text-anchor: middle; }
.lengths .rule { stroke: #e3e7ee; }
.lengths .axis { stroke: #98a2b3; }
.lengths .mark { stroke: #161c27; stroke-dasharray: 2 3; }
.lengths .bar, .lengths .tokens { fill: #3b78e7; }
.lengths .other { fill: #8fb4f5; }
.lengths .beyond { fill: #c3cad6; }
.lengths .padding { fill: #f5b14c; }
.lengths .lost { fill: #d43f52; }
.lengths .track { fill: #f0f2f6; }
@media (prefers-color-scheme: dark) {
.lengths text { fill: #9aa5b8; }
.lengths .page { fill: #161a21; stroke: #2b323d; }
.lengths .title, .lengths .head, .lengths .strong { fill: #e8ebf1; }
.lengths .unit { fill: #9aa5b8; }
.lengths .rule { stroke: #2b323d; }
.lengths .axis { stroke: #667085; }
.lengths .mark { stroke: #e8ebf1; }
.lengths .bar, .lengths .tokens { fill: #6c9ef8; }
.lengths .other { fill: #4a6fb5; }
.lengths .beyond { fill: #4a5464; }
.lengths .padding { fill: #e0993a; }
.lengths .lost { fill: #e8596b; }
.lengths .track { fill: #222832; }
}
)css";

std::string text(double x, double y, std::string_view kind, std::string_view words) {
  return fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", kind, x, y,
                     html_text(words));
}

std::string heading(double x, double y, std::string_view words, std::string_view more) {
  return fmt::format(
      "<text class=\"head\" x=\"{:.1f}\" y=\"{:.1f}\">{} <tspan class=\"unit\">{}</tspan></text>\n", x, y,
      html_text(words), html_text(more));
}

std::string line(std::string_view kind, double x1, double y1, double x2, double y2) {
  return fmt::format("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", kind,
                     x1, y1, x2, y2);
}

std::string box(std::string_view kind, double x, double y, double width, double height,
                std::string_view title) {
  const std::string shape =
      fmt::format("<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"", kind, x,
                  y, width, height);
  return title.empty() ? shape + "/>\n"
                       : fmt::format("{}><title>{}</title></rect>\n", shape, html_text(title));
}

// The position of a part of the picture.
struct Frame {
  double x = 0, y = 0, width = 0, height = 0;
};

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
    return heading(frame_.x, frame_.y + 12, of_.name, "rows by number of tokens") + grid() + columns() +
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
      out += line("rule", plot_.x, y_at(tick), plot_.x + plot_.width, y_at(tick));
      out += text(plot_.x - 8, y_at(tick) + 4, "small end", grouped(std::llround(tick)));
    }
    const double foot = plot_.y + plot_.height;
    const int about = static_cast<int>(plot_.width / 80);
    for (const double tick :
         round_ticks(static_cast<double>(bars_.start), static_cast<double>(bars_.end()), about)) {
      if (std::trunc(tick) != tick || place(tick) > plot_.x + plot_.width) continue;
      out += line("axis", place(tick), foot, place(tick), foot + 4);
      out += text(place(tick), foot + 18, "small mid", grouped(std::llround(tick)));
    }
    return out + line("axis", plot_.x, foot, plot_.x + plot_.width, foot);
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
      out +=
          box(kind_, x_at(static_cast<double>(from)) + 0.5, top, std::max(0.5, width - 1),
              plot_.y + plot_.height - top, fmt::format("{} tokens: {}", span, row_count(bars_.counts[i])));
    }
    return out;
  }

  // Returns a separate bar for the few rows that are far longer.
  std::string beyond() const {
    if (bars_.above == 0) return {};
    const double x = plot_.x + plot_.width + 16, foot = plot_.y + plot_.height;
    const double top = std::clamp(y_at(static_cast<double>(bars_.above)), plot_.y, foot - 2);
    return box("beyond", x, top, 22, foot - top,
               fmt::format("{} {} longer, up to {} tokens", row_count(bars_.above),
                           bars_.above == 1 ? "is" : "are", grouped(of_.max))) +
           text(x + 11, foot + 18, "small mid", "longer") +
           text(x + 11, top - 5, "small mid", grouped(bars_.above));
  }

  std::string marks() const {
    std::string out;
    for (const Mark& mark : marks_) {
      const double y = plot_.y - 7 - kMarkLine * static_cast<double>(mark.level);
      out += line("mark", mark.x, y + 3, mark.x, plot_.y + plot_.height);
      out += text(mark.middle, y, "small mid", mark.words);
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

class Figure {
 public:
  // alone: with a title and the table of percentiles, which a page has outside the picture.
  Figure(const telemetry::LengthProfile& profile, bool alone) : profile_(profile), alone_(alone) {}

  std::string draw() {
    y_ = kEdge;
    if (alone_) titles();
    histograms();
    if (alone_) numbers();
    if (!profile_.limits.empty() && !profile_.limits.front().layouts.empty()) limits();
    y_ += 16;
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" class=\"lengths\" "
               "role=\"img\" {}\n<style>{}</style>\n<rect class=\"page\" x=\"0.5\" y=\"0.5\" width=\"{}\" "
               "height=\"{}\" rx=\"10\"/>\n",
               kFigureWidth, y_, described(), kFigureStyle, kFigureWidth - 1, y_ - 1) +
           body_ + "</svg>\n";
  }

 private:
  void titles() {
    body_ += text(kEdge, 46, "title", "Token lengths: " + base::file_name(profile_.name));
    body_ += text(kEdge, 68, "",
                  fmt::format("{} ({}), {} tokens", row_count(profile_.rows), profile_.format,
                              grouped(profile_.tokens)));
    y_ = 96;
  }

  // Returns the end of the svg tag, with a description for readers that show no picture.
  std::string described() const {
    if (!alone_) return fmt::format("aria-label=\"{}\">", html_text(description()));
    return fmt::format(
        "aria-labelledby=\"lengths-title lengths-text\">\n<title id=\"lengths-title\">{}</title>\n"
        "<desc id=\"lengths-text\">{}</desc>",
        html_text("Token lengths of " + base::file_name(profile_.name)), html_text(description()));
  }

  std::string description() const {
    const telemetry::LengthDistribution& of = profile_.lengths.front();
    return fmt::format(
        "{}, {} tokens: {} tokens per row at the median, {} at the 95th percentile, {} at most.",
        row_count(profile_.rows, ""), profile_.tokens, short_length(of.percentile(50), kThinSpace),
        short_length(of.percentile(95), kThinSpace), of.max);
  }

  void histograms() {
    const std::vector<telemetry::LengthDistribution>& all = profile_.lengths;
    body_ += HistogramFigure(all[0], {kEdge, y_, kInner, 240}, "bar").draw();
    y_ += 240 + 18;
    if (all.size() == 1) return;
    const double gap = 36, width = (kInner - gap * static_cast<double>(all.size() - 2)) /
                                   static_cast<double>(all.size() - 1);
    for (size_t i = 1; i < all.size(); ++i) {
      const double x = kEdge + static_cast<double>(i - 1) * (width + gap);
      body_ += HistogramFigure(all[i], {x, y_, width, 170}, "other").draw();
    }
    y_ += 170 + 18;
  }

  void numbers() {
    std::vector<std::string> names = {"min"};
    for (const int percent : telemetry::kPercentiles) names.push_back(telemetry::percentile_name(percent));
    names.insert(names.end(), {"max", "mean"});
    const double first = kEdge + 150, step = (kInner - 150) / static_cast<double>(names.size());
    const auto place = [&](size_t i) { return first + step * static_cast<double>(i + 1); };
    y_ += 14;
    body_ += text(kEdge, y_, "head", "percentiles");
    for (size_t i = 0; i < names.size(); ++i) body_ += text(place(i), y_, "end", names[i]);
    for (const telemetry::LengthDistribution& of : profile_.lengths) {
      y_ += 9;
      body_ += line("rule", kEdge, y_, kFigureWidth - kEdge, y_);
      y_ += 18;
      body_ += text(kEdge, y_, "", of.name);
      std::vector<double> values = {static_cast<double>(of.min)};
      values.insert(values.end(), of.percentiles.begin(), of.percentiles.end());
      values.insert(values.end(), {static_cast<double>(of.max), of.mean});
      for (size_t i = 0; i < values.size(); ++i)
        body_ += text(place(i), y_, "strong end", short_length(values[i], kThinSpace));
    }
    y_ += 34;
  }

  void limits() {
    y_ += 10;
    body_ +=
        heading(kEdge, y_, "what max_length costs",
                fmt::format("in an epoch with batches of {}{}", profile_.batch_size,
                            profile_.accumulation == 1 ? "" : fmt::format(" × {}", profile_.accumulation)));
    double x = kFigureWidth - kEdge - 262;
    for (const auto& [kind, words] :
         {std::pair{"tokens", "tokens"}, {"padding", "padding"}, {"lost", "lost tokens"}}) {
      body_ += box(kind, x, y_ - 10, 11, 11, "") + text(x + 17, y_, "", words);
      x += 88;
    }
    y_ += 28;
    const double first = kEdge + 150, step = (kInner - 150) / static_cast<double>(telemetry::kLayouts.size());
    for (size_t i = 0; i < telemetry::kLayouts.size(); ++i)
      body_ += text(first + step * static_cast<double>(i), y_, "", layout_name(telemetry::kLayouts[i]));
    const auto widest = static_cast<double>(widest_layout(profile_));
    for (const telemetry::LengthLimit& limit : profile_.limits) {
      y_ += 10;
      body_ += line("rule", kEdge, y_, kFigureWidth - kEdge, y_);
      body_ += text(kEdge, y_ + 25, "head", grouped(limit.max_length));
      body_ += text(
          kEdge, y_ + 43, "small",
          limit.rows_cut == 0 ? "no row is cut" : percent(limit.rows_cut, profile_.rows) + " of rows cut");
      size_t lines = 0;
      if (limit.peak_bytes > 0) {
        body_ += text(kEdge, y_ + 60, "small", "peak " + base::bytes_text(limit.peak_bytes));
        lines = 1;
      }
      for (size_t i = 0; i < limit.layouts.size(); ++i)
        lines = std::max(
            lines, cell(limit.layouts[i], first + step * static_cast<double>(i), y_ + 14, step - 16, widest));
      y_ += 50 + 15 * static_cast<double>(lines);
    }
  }

  // Returns the number of lines of waste below the steps.
  size_t cell(const telemetry::LayoutCost& cost, double x, double y, double width, double widest) {
    const std::string numbers =
        fmt::format("{}: {} tokens, {} padding, {} lost; {} {}, {} steps", layout_name(cost.layout),
                    grouped(cost.tokens), grouped(cost.padding), grouped(cost.lost), grouped(cost.rows),
                    is_packed(cost.layout) ? "packed rows" : "rows", grouped(cost.steps));
    body_ += fmt::format("<g><title>{}</title>\n", html_text(numbers));
    body_ += box("track", x, y, width, 12, "");
    double at = x;
    for (const auto& [kind, tokens] :
         {std::pair{"tokens", cost.tokens}, {"padding", cost.padding}, {"lost", cost.lost}}) {
      if (tokens == 0) continue;
      const double wide = static_cast<double>(tokens) / widest * width;
      body_ += box(kind, at, y, wide, 12, "");
      at += wide;
    }
    body_ += text(x, y + 29, "small", fmt::format("{} steps", grouped(cost.steps)));
    std::vector<std::string> waste;
    if (cost.padding > 0) waste.push_back(percent(cost.padding, cost.tokens + cost.padding) + " padding");
    if (cost.lost > 0) waste.push_back(percent(cost.lost, profile_.tokens) + " lost");
    for (size_t i = 0; i < waste.size(); ++i)
      body_ += text(x, y + 44 + 15 * static_cast<double>(i), "small", waste[i]);
    body_ += "</g>\n";
    return waste.size();
  }

  const telemetry::LengthProfile& profile_;
  const bool alone_;
  std::string body_;
  double y_ = 0;
};

}  // namespace

std::string to_svg(const telemetry::LengthProfile& profile) { return Figure(profile, true).draw(); }
std::string length_figure(const telemetry::LengthProfile& profile) { return Figure(profile, false).draw(); }

}  // namespace trl::report
