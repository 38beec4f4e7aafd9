#include "report/length_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/text/number.h"
#include "report/chart.h"
#include "report/length_figure_style.h"
#include "report/length_report.h"
#include "report/svg_shapes.h"

namespace trl::report {

namespace {

class CostsFigure {
 public:
  CostsFigure(const telemetry::LengthProfile& profile, double y) : profile_(profile), y_(y) {}

  LengthCosts draw() {
    y_ += 10;
    body_ += svg::heading(
        kFigureEdge, y_, "what max_length costs",
        fmt::format("in an epoch with batches of {}{}", profile_.batch_size,
                    profile_.accumulation == 1 ? "" : fmt::format(" × {}", profile_.accumulation)));
    double x = kFigureWidth - kFigureEdge - 262;
    for (const auto& [kind, words] :
         {std::pair{"tokens", "tokens"}, {"padding", "padding"}, {"lost", "lost tokens"}}) {
      body_ += svg::box(kind, x, y_ - 10, 11, 11, "") + svg::text(x + 17, y_, "", words);
      x += 88;
    }
    y_ += 28;
    const double first = kFigureEdge + 150,
                 step = (kFigureInner - 150) / static_cast<double>(telemetry::kLayouts.size());
    for (size_t i = 0; i < telemetry::kLayouts.size(); ++i)
      body_ += svg::text(first + step * static_cast<double>(i), y_, "", layout_name(telemetry::kLayouts[i]));
    const auto widest = static_cast<double>(widest_layout(profile_));
    for (const telemetry::LengthLimit& limit : profile_.limits) {
      y_ += 10;
      body_ += svg::line("rule", kFigureEdge, y_, kFigureWidth - kFigureEdge, y_);
      body_ += svg::text(kFigureEdge, y_ + 25, "head", grouped(limit.max_length));
      body_ += svg::text(
          kFigureEdge, y_ + 43, "small",
          limit.rows_cut == 0 ? "no row is cut" : percent(limit.rows_cut, profile_.rows) + " of rows cut");
      size_t lines = 0;
      if (limit.peak_bytes > 0) {
        body_ += svg::text(kFigureEdge, y_ + 60, "small", "peak " + base::bytes_text(limit.peak_bytes));
        lines = 1;
      }
      for (size_t i = 0; i < limit.layouts.size(); ++i)
        lines = std::max(
            lines, cell(limit.layouts[i], first + step * static_cast<double>(i), y_ + 14, step - 16, widest));
      y_ += 50 + 15 * static_cast<double>(lines);
    }
    return {std::move(body_), y_};
  }

 private:
  // Returns the number of lines of waste below the steps.
  size_t cell(const telemetry::LayoutCost& cost, double x, double y, double width, double widest) {
    const std::string numbers =
        fmt::format("{}: {} tokens, {} padding, {} lost; {} {}, {} steps", layout_name(cost.layout),
                    grouped(cost.tokens), grouped(cost.padding), grouped(cost.lost), grouped(cost.rows),
                    is_packed(cost.layout) ? "packed rows" : "rows", grouped(cost.steps));
    body_ += fmt::format("<g><title>{}</title>\n", html_text(numbers));
    body_ += svg::box("track", x, y, width, 12, "");
    double at = x;
    for (const auto& [kind, tokens] :
         {std::pair{"tokens", cost.tokens}, {"padding", cost.padding}, {"lost", cost.lost}}) {
      if (tokens == 0) continue;
      const double wide = static_cast<double>(tokens) / widest * width;
      body_ += svg::box(kind, at, y, wide, 12, "");
      at += wide;
    }
    body_ += svg::text(x, y + 29, "small", fmt::format("{} steps", grouped(cost.steps)));
    std::vector<std::string> waste;
    if (cost.padding > 0) waste.push_back(percent(cost.padding, cost.tokens + cost.padding) + " padding");
    if (cost.lost > 0) waste.push_back(percent(cost.lost, profile_.tokens) + " lost");
    for (size_t i = 0; i < waste.size(); ++i)
      body_ += svg::text(x, y + 44 + 15 * static_cast<double>(i), "small", waste[i]);
    body_ += "</g>\n";
    return waste.size();
  }

  const telemetry::LengthProfile& profile_;
  double y_;
  std::string body_;
};

}  // namespace

LengthCosts length_costs(const telemetry::LengthProfile& profile, double y) {
  return CostsFigure(profile, y).draw();
}

}  // namespace trl::report
