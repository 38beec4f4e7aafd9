// Draws a length profile as a picture: histograms with their percentiles, and the costs of each max_length.
#include <fmt/format.h>

#include "base/files/files.h"
#include "report/chart.h"
#include "report/length_costs.h"
#include "report/length_figure_style.h"
#include "report/length_histogram.h"
#include "report/length_report.h"
#include "report/svg_shapes.h"

namespace trl::report {

namespace {

class Figure {
 public:
  // alone: with a title and the table of percentiles, which a page has outside the picture.
  Figure(const telemetry::LengthProfile& profile, bool alone) : profile_(profile), alone_(alone) {}

  std::string draw() {
    y_ = kFigureEdge;
    if (alone_) titles();
    histograms();
    if (alone_) numbers();
    if (!profile_.limits.empty() && !profile_.limits.front().layouts.empty()) {
      const LengthCosts costs = length_costs(profile_, y_);
      body_ += costs.shapes;
      y_ = costs.end;
    }
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
    body_ += svg::text(kFigureEdge, 46, "title", "Token lengths: " + base::file_name(profile_.name));
    body_ += svg::text(kFigureEdge, 68, "",
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
    body_ += length_histogram(all[0], {kFigureEdge, y_, kFigureInner, 240}, "bar");
    y_ += 240 + 18;
    if (all.size() == 1) return;
    const double gap = 36, width = (kFigureInner - gap * static_cast<double>(all.size() - 2)) /
                                   static_cast<double>(all.size() - 1);
    for (size_t i = 1; i < all.size(); ++i) {
      const double x = kFigureEdge + static_cast<double>(i - 1) * (width + gap);
      body_ += length_histogram(all[i], {x, y_, width, 170}, "other");
    }
    y_ += 170 + 18;
  }

  void numbers() {
    std::vector<std::string> names = {"min"};
    for (const int percent : telemetry::kPercentiles) names.push_back(telemetry::percentile_name(percent));
    names.insert(names.end(), {"max", "mean"});
    const double first = kFigureEdge + 150, step = (kFigureInner - 150) / static_cast<double>(names.size());
    const auto place = [&](size_t i) { return first + step * static_cast<double>(i + 1); };
    y_ += 14;
    body_ += svg::text(kFigureEdge, y_, "head", "percentiles");
    for (size_t i = 0; i < names.size(); ++i) body_ += svg::text(place(i), y_, "end", names[i]);
    for (const telemetry::LengthDistribution& of : profile_.lengths) {
      y_ += 9;
      body_ += svg::line("rule", kFigureEdge, y_, kFigureWidth - kFigureEdge, y_);
      y_ += 18;
      body_ += svg::text(kFigureEdge, y_, "", of.name);
      std::vector<double> values = {static_cast<double>(of.min)};
      values.insert(values.end(), of.percentiles.begin(), of.percentiles.end());
      values.insert(values.end(), {static_cast<double>(of.max), of.mean});
      for (size_t i = 0; i < values.size(); ++i)
        body_ += svg::text(place(i), y_, "strong end", short_length(values[i], kThinSpace));
    }
    y_ += 34;
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
