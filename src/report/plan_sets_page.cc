// Shows the option sets of a plan side by side: bars, timelines and numbers.
#include <fmt/format.h>

#include "base/text/quantity.h"
#include "report/chart.h"
#include "report/plan_page_parts.h"

namespace trl::report {

std::string data_cell(std::string_view text, std::string_view kind) {
  return kind.empty() ? fmt::format("<td>{}</td>", text)
                      : fmt::format("<td class=\"{}\">{}</td>", kind, text);
}

std::string key_of(const PlanTerms& terms, size_t term) {
  return fmt::format("<span class=\"key\" style=\"background:{}\"></span>{}", terms.colour(term),
                     html_text(terms.names()[term]));
}

std::string bytes_of(const base::Json& of, const char* key) {
  const double bytes = plan_number(of, key);
  return bytes < 0 ? "" : base::bytes_text(bytes);
}

namespace {

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
std::string peak_bar(const base::Json& plan, const PlanTerms& terms, double top) {
  std::string out = fmt::format(
      "<svg viewBox=\"0 0 1000 20\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"peak {}\">",
      bytes_of(plan, "peak_bytes"));
  double from = 0;
  for (const base::Json& term : plan.at("terms")) {
    const auto name = term.at("name").get<std::string>();
    const double width = plan_number(term, "bytes") / top * 1000;
    if (width <= 0) continue;
    out += fmt::format(
        "<rect x=\"{:.1f}\" width=\"{:.1f}\" height=\"20\" fill=\"{}\"><title>{}: {}</title></rect>", from,
        width, terms.colour(terms.index(name)), html_text(name), bytes_of(term, "bytes"));
    from += width;
  }
  return out + "</svg>";
}

std::string sets_table(const std::vector<PlannedSet>& sets, const PlanTerms& terms) {
  std::string rows =
      "<tr><th>options</th><th class=\"bar\">memory at the peak</th><th>peak</th><th>tokens/s</th><th>the "
      "run</th><th>disk</th></tr>\n";
  const double top = highest_peak(sets);
  for (const PlannedSet& set : sets) {
    rows += &set == &sets.front() ? "<tr class=\"own\">" : "<tr>";
    rows += data_cell(breakable(set.name));
    if (set.plan == nullptr) {
      rows +=
          fmt::format("<td class=\"refused\" colspan=\"5\">refused: {}</td></tr>\n", html_text(set.refused));
      continue;
    }
    const double seconds = plan_number(*set.plan, "seconds");
    rows += data_cell(peak_bar(*set.plan, terms, top), "bar") + data_cell(bytes_of(*set.plan, "peak_bytes")) +
            data_cell(base::rate_text(plan_number(*set.plan, "tokens_per_second"))) +
            data_cell(seconds < 0 ? "" : base::duration_text(seconds)) +
            data_cell(bytes_of(set.plan->at("disk"), "needed_bytes")) + "</tr>\n";
  }
  return fmt::format(
      "<section class=\"card\"><h2>Option sets</h2>\n<table class=\"figures sets\">\n{}</table></section>\n",
      rows);
}

// Tabulates the bytes of each term at the peak, a column for each set.
std::string matrix(const std::vector<PlannedSet>& sets, const PlanTerms& terms) {
  std::string rows = "<tr><th>at the peak</th>";
  for (const PlannedSet& set : sets) rows += fmt::format("<th>{}</th>", breakable(set.name));
  rows += "</tr>\n";
  for (size_t term = 0; term < terms.names().size(); ++term) {
    rows += "<tr>" + data_cell(key_of(terms, term));
    for (const PlannedSet& set : sets) {
      std::string bytes;
      if (set.plan != nullptr) {
        for (const base::Json& of : set.plan->at("terms")) {
          if (of.at("name") == terms.names()[term]) bytes = bytes_of(of, "bytes");
        }
      }
      rows += data_cell(bytes);
    }
    rows += "</tr>\n";
  }
  rows += "<tr class=\"sum\">" + data_cell("peak");
  for (const PlannedSet& set : sets)
    rows +=
        set.plan != nullptr ? data_cell(bytes_of(*set.plan, "peak_bytes")) : data_cell("refused", "refused");
  return fmt::format(
      "<section class=\"card\"><h2>Terms of the option sets</h2>\n<table "
      "class=\"figures named\">\n{}</tr>\n</table></section>\n",
      rows);
}

std::string timelines(const std::vector<PlannedSet>& sets, const PlanTerms& terms) {
  std::string out;
  for (const PlannedSet& set : sets) {
    if (set.plan == nullptr || &set == &sets.front()) continue;
    out += fmt::format("<section class=\"card\"><h2>{}</h2>\n{}</section>\n", html_text(set.name),
                       svg_timeline(*set.plan, terms, highest_peak(sets), 500, 230));
  }
  return out.empty() ? out : "<div class=\"charts\">\n" + out + "</div>\n";
}

}  // namespace

std::string sets_cards(const std::vector<PlannedSet>& sets, const PlanTerms& terms) {
  return sets_table(sets, terms) + timelines(sets, terms) + matrix(sets, terms);
}

}  // namespace trl::report
