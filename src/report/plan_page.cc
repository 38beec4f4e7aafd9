// Shows a plan as a page: one step of the configuration, and its option sets side by side.
#include <fmt/format.h>

#include "base/text/number.h"
#include "report/chart.h"
#include "report/page.h"
#include "report/plan_report.h"

namespace trl::report {

namespace {

constexpr std::string_view kPlanStyle = R"css(
body { max-width: 1080px; }
.card { margin-bottom: 14px; overflow-x: auto; }
.card p { color: var(--faint); font-size: 13px; margin: 0 0 12px; }
.charts .card { margin-bottom: 0; }
svg .grid { stroke: var(--rule); }
svg .border { stroke: var(--faint); stroke-dasharray: 2 3; opacity: .7; }
svg .end { text-anchor: end; }
svg .strong { fill: var(--text); font-weight: 600; }
svg .peak { fill: var(--text); stroke: var(--card); stroke-width: 1.5; }
.key { display: inline-block; width: 10px; height: 10px; margin-right: 8px; border-radius: 2px; }
.figures td, .figures th { text-align: right; padding: 5px 0 5px 18px; white-space: nowrap; }
.figures td:first-child, .figures th:first-child { text-align: left; padding-left: 0; white-space: normal; }
.figures th { vertical-align: bottom; overflow-wrap: normal; }
.named th { white-space: normal; max-width: 170px; }
.figures .sum td { border-top: 2px solid var(--faint); font-weight: 600; }
.sets td { vertical-align: middle; }
.sets td:first-child { width: 27%; overflow-wrap: normal; }
.sets .bar { width: 40%; text-align: left; }
.sets .bar svg { height: 20px; border-radius: 3px; }
.sets .bar rect { stroke: var(--card); stroke-width: 1; vector-effect: non-scaling-stroke; }
.figures .refused { color: var(--lost); text-align: left; white-space: normal; }
.own td:first-child { font-weight: 600; }
.narrow { display: none; }
@media (max-width: 640px) {
body { padding: 20px 12px 32px; }
.broad, .sets .bar { display: none; }
.narrow { display: block; }
.figures td, .figures th { padding-left: 8px; }
.figures th { white-space: normal; }
.sets td:first-child { width: 34%; }
.named { table-layout: fixed; font-size: 11px; }
.named th { max-width: none; overflow-wrap: anywhere; }
.named td:first-child, .named th:first-child { width: 24%; }
.named .key { margin-right: 4px; }
}
)css";

// Returns a cell of a table. kind: its class.
std::string data_cell(std::string_view text, std::string_view kind = {}) {
  return kind.empty() ? fmt::format("<td>{}</td>", text)
                      : fmt::format("<td class=\"{}\">{}</td>", kind, text);
}

// Returns the colour and name of a term.
std::string key_of(const PlanTerms& terms, size_t term) {
  return fmt::format("<span class=\"key\" style=\"background:{}\"></span>{}", terms.colour(term),
                     html_text(terms.names()[term]));
}

std::string terms_table(const telemetry::RunPlan& plan, const PlanTerms& terms) {
  std::string rows = "<tr><th>term</th><th>at the peak</th><th>at most</th></tr>\n";
  for (const auto& term : plan.terms) {
    rows += "<tr>" + data_cell(key_of(terms, terms.index(term.name))) +
            data_cell(base::bytes_text(term.bytes)) + data_cell(base::bytes_text(term.most_bytes)) +
            "</tr>\n";
  }
  rows += "<tr class=\"sum\">" + data_cell("peak") + data_cell(base::bytes_text(plan.peak_bytes)) +
          data_cell("") + "</tr>\n";
  return fmt::format("<table class=\"figures\">\n{}</table>\n", rows);
}

std::string below_title(const telemetry::RunPlan& plan) {
  return fmt::format("{}: {} of {} at once", html_text(plan.model), base::quantity(plan.rows, "row"),
                     base::quantity(plan.row_tokens, "token"));
}

telemetry::Facts numbers(const telemetry::RunPlan& plan) {
  const telemetry::RunPlan::Time& time = plan.time;
  const telemetry::RunPlan::Disk& disk = plan.disk;
  telemetry::Facts out = {{"peak", base::bytes_text(plan.peak_bytes)},
                          {"tokens per second", base::rate_text(time.tokens_per_second)},
                          {"a step", base::duration_text(time.seconds_per_step)}};
  if (time.tokens > 0) out.push_back({base::quantity(time.steps, "step"), base::duration_text(time.seconds)});
  out.push_back({disk.free_bytes < 0 ? "on the disk"
                                     : fmt::format("on the disk, {} free", base::bytes_text(disk.free_bytes)),
                 base::bytes_text(disk.needed_bytes)});
  return out;
}

// Allows a break after an underscore.
std::string breakable(const std::string& name) {
  std::string out;
  for (const char c : html_text(name)) {
    out += c;
    if (c == '_') out += "<wbr>";
  }
  return out;
}

// Draws the terms at the peak, relative to the highest peak of all sets.
std::string peak_bar(const telemetry::RunPlan& plan, const PlanTerms& terms, double top) {
  std::string out = fmt::format(
      "<svg viewBox=\"0 0 1000 20\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"peak {}\">",
      base::bytes_text(plan.peak_bytes));
  double from = 0;
  for (const auto& term : plan.terms) {
    const double width = static_cast<double>(term.bytes) / top * 1000;
    if (width <= 0) continue;
    out += fmt::format(
        "<rect x=\"{:.1f}\" width=\"{:.1f}\" height=\"20\" fill=\"{}\"><title>{}: {}</title></rect>", from,
        width, terms.colour(terms.index(term.name)), html_text(term.name), base::bytes_text(term.bytes));
    from += width;
  }
  return out + "</svg>";
}

std::string sets_table(const Sets& sets, const PlanTerms& terms) {
  std::string rows =
      "<tr><th>options</th><th class=\"bar\">memory at the peak</th><th>peak</th><th>tokens/s</th><th>the "
      "run</th><th>disk</th></tr>\n";
  const double top = highest_peak(sets);
  for (const telemetry::PlannedSet& set : sets) {
    rows += &set == &sets.front() ? "<tr class=\"own\">" : "<tr>";
    rows += data_cell(breakable(set.options));
    if (set.refused) {
      rows += fmt::format("<td class=\"refused\" colspan=\"5\">refused: {}</td></tr>\n",
                          html_text(set.refused->message));
      continue;
    }
    const telemetry::RunPlan& plan = set.plan;
    rows += data_cell(peak_bar(plan, terms, top), "bar") + data_cell(base::bytes_text(plan.peak_bytes)) +
            data_cell(base::rate_text(plan.time.tokens_per_second)) +
            data_cell(plan.time.tokens > 0 ? base::duration_text(plan.time.seconds) : "") +
            data_cell(base::bytes_text(plan.disk.needed_bytes)) + "</tr>\n";
  }
  return fmt::format(
      "<section class=\"card\"><h2>Option sets</h2>\n<table class=\"figures sets\">\n{}</table></section>\n",
      rows);
}

// Tabulates the bytes of each term at the peak, a column for each set.
std::string matrix(const Sets& sets, const PlanTerms& terms) {
  std::string rows = "<tr><th>at the peak</th>";
  for (const telemetry::PlannedSet& set : sets) rows += fmt::format("<th>{}</th>", breakable(set.options));
  rows += "</tr>\n";
  for (size_t term = 0; term < terms.names().size(); ++term) {
    rows += "<tr>" + data_cell(key_of(terms, term));
    for (const telemetry::PlannedSet& set : sets) {
      std::string bytes;
      for (const auto& of : set.plan.terms)
        if (of.name == terms.names()[term]) bytes = base::bytes_text(of.bytes);
      rows += data_cell(bytes);
    }
    rows += "</tr>\n";
  }
  rows += "<tr class=\"sum\">" + data_cell("peak");
  for (const telemetry::PlannedSet& set : sets)
    rows += set.refused ? data_cell("refused", "refused") : data_cell(base::bytes_text(set.plan.peak_bytes));
  return fmt::format(
      "<section class=\"card\"><h2>Terms of the option sets</h2>\n<table class=\"figures "
      "named\">\n{}</tr>\n</table></section>\n",
      rows);
}

std::string timelines(const Sets& sets, const PlanTerms& terms) {
  std::string out;
  for (const telemetry::PlannedSet& set : sets) {
    if (set.refused || &set == &sets.front()) continue;
    out += fmt::format("<section class=\"card\"><h2>{}</h2>\n{}</section>\n", html_text(set.options),
                       svg_timeline(set.plan, terms, highest_peak(sets), 500, 230));
  }
  return out.empty() ? out : "<div class=\"charts\">\n" + out + "</div>\n";
}

// Shows the option sets side by side: bars, timelines and numbers.
std::string sets_cards(const Sets& sets, const PlanTerms& terms) {
  return sets_table(sets, terms) + timelines(sets, terms) + matrix(sets, terms);
}

}  // namespace

std::string plan_page(const Sets& sets) {
  const telemetry::RunPlan& plan = sets.front().plan;
  const PlanTerms terms(sets);
  const auto timeline = [&](const char* kind, double width, double height) {
    return fmt::format("<div class=\"{}\">{}</div>\n", kind,
                       svg_timeline(plan, terms, static_cast<double>(plan.peak_bytes) * 1.02, width, height));
  };
  std::string body = html_numbers(numbers(plan));
  body +=
      "<section class=\"card\"><h2>One step as configured</h2>\n<p>What is alive when. From left to right: "
      "opening the model, forward, loss, backward, optimizer.</p>\n" +
      timeline("broad", 960, 340) + timeline("narrow", 480, 280) + terms_table(plan, terms) + "</section>\n";
  if (sets.size() > 1) body += sets_cards(sets, terms);
  body +=
      "<footer>Resident memory of the process, found by going through the step without computing it. Half of "
      "the width is arithmetic, half what is taken and given back.</footer>\n";
  return html_page("Memory plan", below_title(plan), body, kPlanStyle);
}

}  // namespace trl::report
