// Shows a plan as a page: one step of the configuration, and its option sets side by side.
#include <fmt/format.h>

#include "base/text/quantity.h"
#include "report/chart.h"
#include "report/page.h"
#include "report/plan_page_parts.h"
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

std::string terms_table(const base::Json& plan, const PlanTerms& terms) {
  std::string rows = "<tr><th>term</th><th>at the peak</th><th>at most</th></tr>\n";
  for (const base::Json& term : plan.at("terms")) {
    rows += "<tr>" + data_cell(key_of(terms, terms.index(term.at("name").get<std::string>()))) +
            data_cell(bytes_of(term, "bytes")) + data_cell(bytes_of(term, "most_bytes")) + "</tr>\n";
  }
  rows += "<tr class=\"sum\">" + data_cell("peak") + data_cell(bytes_of(plan, "peak_bytes")) + data_cell("") +
          "</tr>\n";
  return fmt::format("<table class=\"figures\">\n{}</table>\n", rows);
}

std::string below_title(const base::Json& plan) {
  std::string out = html_text(plan.value("model", std::string()));
  const auto rows = static_cast<int64_t>(plan_number(plan, "rows")),
             tokens = static_cast<int64_t>(plan_number(plan, "row_tokens"));
  if (rows > 0)
    out += fmt::format(": {} of {} at once", base::quantity(rows, "row"), base::quantity(tokens, "token"));
  return out;
}

telemetry::Facts numbers(const base::Json& plan) {
  telemetry::Facts out = {{"peak", bytes_of(plan, "peak_bytes")},
                          {"tokens per second", base::rate_text(plan_number(plan, "tokens_per_second"))},
                          {"a step", base::duration_text(plan_number(plan, "seconds_per_step"))}};
  if (plan_number(plan, "seconds") >= 0) {
    out.push_back({base::quantity(static_cast<int64_t>(plan_number(plan, "steps")), "step"),
                   base::duration_text(plan_number(plan, "seconds"))});
  }
  const base::Json& disk = plan.at("disk");
  const double free = plan_number(disk, "free_bytes");
  out.push_back({free < 0 ? "on the disk" : fmt::format("on the disk, {} free", base::bytes_text(free)),
                 bytes_of(disk, "needed_bytes")});
  return out;
}

}  // namespace

std::string plan_page(const base::Json& plan) {
  const std::vector<PlannedSet> sets = planned_sets(plan);
  const PlanTerms terms(sets);
  const auto timeline = [&](const char* kind, double width, double height) {
    return fmt::format("<div class=\"{}\">{}</div>\n", kind,
                       svg_timeline(plan, terms, plan_number(plan, "peak_bytes") * 1.02, width, height));
  };
  std::string body = html_numbers(numbers(plan));
  body +=
      "<section class=\"card\"><h2>One step as configured</h2>\n<p>What is alive when. From left to right: "
      "opening "
      "the model, forward, loss, backward, optimizer.</p>\n" +
      timeline("broad", 960, 340) + timeline("narrow", 480, 280) + terms_table(plan, terms) + "</section>\n";
  if (sets.size() > 1) body += sets_cards(sets, terms);
  body +=
      "<footer>Resident memory of the process, found by going through the step without computing it. Half of "
      "the "
      "width is arithmetic, half what is taken and given back.</footer>\n";
  return html_page("Memory plan", below_title(plan), body, kPlanStyle);
}

}  // namespace trl::report
