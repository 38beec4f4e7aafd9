// Draws the timeline of one step as stacked areas, one for each term.
#include <fmt/format.h>

#include <algorithm>

#include "base/text/number.h"
#include "report/chart.h"
#include "report/plan_report.h"

namespace trl::report {

namespace {

class TimelineFigure {
 public:
  TimelineFigure(const telemetry::RunPlan& plan, const PlanTerms& terms, double top, double width,
                 double height)
      : plan_(plan), terms_(terms), top_(top), width_(width), height_(height) {
    for (const auto& term : plan.terms) numbers_.push_back(terms.index(term.name));
    for (const auto& moment : plan.timeline) {
      double sum = 0;
      std::vector<double>& sums = sums_.emplace_back();
      for (const int64_t bytes : moment.bytes) sums.push_back(sum += static_cast<double>(bytes));
    }
  }

  std::string draw() const {
    std::string out = fmt::format(
        "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"memory during one step\">\n", width_, height_);
    out += grid();
    for (size_t term = numbers_.size(); term-- > 0;) out += area(term);
    return out + stages() + peak() + "</svg>\n";
  }

 private:
  static constexpr double kLeft = 66, kRight = 8, kTop = 24, kBottom = 40;

  double x(size_t i) const { return kLeft + moment_place(plan_, i) * (width_ - kLeft - kRight); }
  double y(double bytes) const { return height_ - kBottom - bytes / top_ * (height_ - kTop - kBottom); }

  std::string grid() const {
    std::string out;
    for (const double tick : round_ticks(0, top_, height_ > 260 ? 7 : 4)) {
      out += fmt::format(
          "<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/><text class=\"end\" "
          "x=\"{}\" y=\"{:.1f}\">{}</text>\n",
          kLeft, width_ - kRight, y(tick), y(tick), kLeft - 8, y(tick) + 4, base::bytes_text(tick));
    }
    return out;
  }

  // Draws a term from the sum of the terms below it to its own sum, as steps, for moments in which it has
  // bytes.
  std::string area(size_t term) const {
    const auto below = [&](size_t i) { return term == 0 ? 0 : sums_[i][term - 1]; };
    std::string path;
    for (size_t begin = 0; begin < sums_.size();) {
      if (sums_[begin][term] <= below(begin)) {
        ++begin;
        continue;
      }
      size_t end = begin;
      std::string back;
      while (end < sums_.size() && sums_[end][term] > below(end)) {
        path += fmt::format("{}{:.1f} {:.1f}H{:.1f}", end == begin ? "M" : "L", x(end), y(sums_[end][term]),
                            right(end));
        back = fmt::format("L{:.1f} {:.1f}H{:.1f}", right(end), y(below(end)), x(end)) + back;
        ++end;
      }
      path += back + "Z";
      begin = end;
    }
    if (path.empty()) return {};
    const size_t number = numbers_[term];
    return fmt::format("<path fill=\"{}\" d=\"{}\"><title>{}</title></path>\n", terms_.colour(number), path,
                       html_text(terms_.names()[number]));
  }
  // Returns the right end of the value of a moment.
  double right(size_t i) const { return i + 1 < sums_.size() ? x(i + 1) : width_ - kRight; }

  // Writes the names of the stages below, at their first beginning, on two lines if they would touch.
  std::string stages() const {
    std::string out;
    double free_from[2] = {0, 0};
    for (const PlanStage& stage : plan_stages(plan_)) {
      const double at = x(stage.first);
      const double words = 6.6 * static_cast<double>(stage.name.size());
      const double begin = std::min(at + 4, width_ - kRight - words);
      const int line = begin >= free_from[0] ? 0 : 1;
      out += fmt::format("<line class=\"border\" x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/>\n", at,
                         kTop, height_ - kBottom + 18 + 16 * line);
      if (begin < free_from[line]) continue;
      free_from[line] = begin + words + 10;
      out += fmt::format("<text x=\"{:.1f}\" y=\"{}\">{}<title>{}</title></text>\n", begin,
                         height_ - kBottom + 16 + 16 * line, html_text(stage.name),
                         base::bytes_text(stage.bytes));
    }
    return out;
  }

  std::string peak() const {
    size_t most = 0;
    for (size_t i = 1; i < sums_.size(); ++i)
      if (sums_[i].back() > sums_[most].back()) most = i;
    const double at = (x(most) + right(most)) / 2, height = y(sums_[most].back());
    const bool left = at > width_ / 2;
    return fmt::format(
        "<circle class=\"peak\" cx=\"{0:.1f}\" cy=\"{1:.1f}\" r=\"3.5\"/>\n<text class=\"strong{2}\" "
        "x=\"{3:.1f}\" y=\"{4:.1f}\">peak {5}</text>\n",
        at, height, left ? " end" : "", left ? at - 2 : at + 2, height - 9,
        base::bytes_text(plan_.peak_bytes));
  }

  const telemetry::RunPlan& plan_;
  const PlanTerms& terms_;
  const double top_, width_, height_;
  std::vector<size_t> numbers_;            // of the plan's terms, among all terms
  std::vector<std::vector<double>> sums_;  // of the terms up to each one, by moment
};

}  // namespace

std::string svg_timeline(const telemetry::RunPlan& plan, const PlanTerms& terms, double top, double width,
                         double height) {
  if (plan.timeline.empty()) return {};
  return TimelineFigure(plan, terms, top, width, height).draw();
}

}  // namespace trl::report
