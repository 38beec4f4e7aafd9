// Draws the timeline of one step for a terminal: columns of letters, one letter a term, only ASCII.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text/quantity.h"
#include "report/chart.h"
#include "report/planned_sets.h"

namespace trl::report {

namespace {

constexpr int64_t kLines = 14, kMargin = 11;

// Returns for each column the moment to show: the one with most bytes in that column, or the previous
// column's.
std::vector<size_t> shown_moments(const base::Json& timeline, int64_t columns) {
  std::vector<size_t> shown(static_cast<size_t>(columns), timeline.size());
  for (size_t i = 0; i < timeline.size(); ++i) {
    const double place = moment_place(timeline, i) * static_cast<double>(columns);
    size_t& at = shown[static_cast<size_t>(std::clamp<int64_t>(static_cast<int64_t>(place), 0, columns - 1))];
    if (at == timeline.size() || bytes_at(timeline, i) > bytes_at(timeline, at)) at = i;
  }
  size_t before = 0;
  for (size_t& at : shown) {
    if (at == timeline.size()) at = before;
    before = at;
  }
  return shown;
}

// Returns the letter of the term that these bytes, counted from below, belong to; a space above all terms.
char letter_at(const base::Json& plan, size_t moment, double bytes, const PlanTerms& terms) {
  double sum = 0;
  const base::Json& held = plan.at("timeline")[moment].at("bytes");
  for (size_t term = 0; term < held.size(); ++term) {
    sum += held[term].get<double>();
    if (bytes < sum) return terms.letter(terms.index(plan.at("terms")[term].at("name").get<std::string>()));
  }
  return ' ';
}

// Writes the beginning of each stage and its peak, on as many lines as needed.
std::string stage_lines(const base::Json& plan, int64_t columns) {
  std::vector<std::string> lines;
  for (const PlanStage& stage : plan_stages(plan)) {
    const double place = moment_place(plan.at("timeline"), stage.first) * static_cast<double>(columns);
    const std::string words = fmt::format("^{} {}", stage.name, base::bytes_text(stage.bytes));
    const auto size = static_cast<int64_t>(words.size());
    // The words are before a mark that is too far right for them.
    int64_t begin = std::clamp<int64_t>(static_cast<int64_t>(place), 0, columns - 1);
    std::string text = words;
    if (begin + size > columns) {
      text = words.substr(1) + "^";
      begin = std::max<int64_t>(0, begin + 1 - size);
    }
    const auto fits = [&](const std::string& line) {
      return line.empty() || begin > static_cast<int64_t>(line.size());
    };
    auto line = std::find_if(lines.begin(), lines.end(), fits);
    if (line == lines.end()) line = lines.insert(lines.end(), "");
    line->resize(static_cast<size_t>(begin), ' ');
    *line += text;
  }
  std::string out;
  for (const std::string& line : lines) out += fmt::format("{:{}}{}\n", "", kMargin, line);
  return out;
}

}  // namespace

std::string text_timeline(const base::Json& plan, const PlanTerms& terms, int64_t columns) {
  const base::Json& timeline = plan.at("timeline");
  if (timeline.empty()) return {};
  columns -= kMargin;
  const double top = std::max(1.0, plan_number(plan, "peak_bytes"));
  const std::vector<size_t> shown = shown_moments(timeline, columns);
  std::vector<std::string> labels(kLines);
  for (const double tick : round_ticks(0, top, 4)) {
    const auto line = static_cast<int64_t>(std::ceil(tick / top * kLines)) - 1;
    if (line >= 0 && line < kLines - 1) labels[static_cast<size_t>(line)] = base::bytes_text(tick);
  }
  labels.back() = base::bytes_text(top);
  std::string out;
  for (int64_t line = kLines; line-- > 0;) {
    const std::string& label = labels[static_cast<size_t>(line)];
    std::string text = fmt::format("{:>{}}{}", label, kMargin - 2, label.empty() ? " |" : " +");
    const double bytes = (static_cast<double>(line) + 0.5) / kLines * top;
    for (const size_t moment : shown) text += letter_at(plan, moment, bytes, terms);
    out += text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
  }
  out += fmt::format("{:>{}} +{}\n", "0", kMargin - 2, std::string(static_cast<size_t>(columns), '-'));
  return out + stage_lines(plan, columns);
}

}  // namespace trl::report
