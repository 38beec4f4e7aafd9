// A length profile as an HTML page: the picture, and all its numbers in tables.
#include "report/length_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/files/files.h"
#include "base/text/number.h"
#include "report/chart.h"
#include "report/page.h"
#include "telemetry/trainer_state.h"

namespace trl::report {

// Formats a share; one that is neither 0 nor 1 is never rounded to look like 0 or 1.
std::string percent(int64_t part, int64_t whole) {
  const double value = telemetry::share(part, whole) * 100;
  if (part == 0 || part == whole) return part == 0 ? "0%" : "100%";
  if (value < 0.1) return "<0.1%";
  if (value > 99.9) return ">99.9%";
  return fmt::format("{:.1f}%", value);
}

std::string short_length(double length, std::string_view space) {
  if (length >= 1000) return grouped(std::llround(length), space);
  const double rounded = telemetry::round_decimals(length, 1);
  return fmt::format("{:.{}f}", rounded, rounded == std::floor(rounded) ? 0 : 1);
}

std::string_view why_peaks_fall(const telemetry::LengthProfile& profile) {
  int64_t highest = 0;
  for (const telemetry::LengthLimit& limit : profile.limits) {
    if (limit.peak_bytes > 0 && limit.peak_bytes < highest)
      return "A longer max_length can have a lower peak: in a batch of many tokens, 2048 or more, weights "
             "are kept in the type that is computed in only while their layer is at work, and feed-forward "
             "parts go by tiles.";
    highest = std::max(highest, limit.peak_bytes);
  }
  return {};
}

int64_t widest_layout(const telemetry::LengthProfile& profile) {
  int64_t widest = 1;
  for (const telemetry::LengthLimit& limit : profile.limits)
    for (const telemetry::LayoutCost& cost : limit.layouts)
      widest = std::max(widest, cost.tokens + cost.padding + cost.lost);
  return widest;
}

namespace {

constexpr std::string_view kLengthsStyle = R"css(
body { max-width: 1080px; }
.card { margin-bottom: 14px; overflow-x: auto; }
.figure { padding: 0; border: 0; background: none; }
.wide td, .wide th { text-align: right; white-space: nowrap; }
.wide td:first-child, .wide th:first-child, .named td:nth-child(2), .named th:nth-child(2) { text-align: left; }
.note { color: var(--faint); font-size: 13px; margin: 10px 0 0; }
.wide tr.first > * { border-top: 2px solid var(--faint); }
)css";

std::string row(std::string_view kind, std::string_view cell, const std::vector<std::string>& cells) {
  std::string out = fmt::format("<tr class=\"{}\">", kind);
  for (const std::string& text : cells) out += fmt::format("<{0}>{1}</{0}>", cell, html_text(text));
  return out + "</tr>\n";
}

std::string card(std::string_view title, std::string_view kind, const std::string& rows,
                 std::string_view note = {}) {
  return fmt::format("<section class=\"card\"><h2>{}</h2><table class=\"{}\">\n{}</table>{}</section>\n",
                     title, kind, rows,
                     note.empty() ? "" : fmt::format("<p class=\"note\">{}</p>", html_text(note)));
}

std::string lengths_table(const telemetry::LengthProfile& profile) {
  std::vector<std::string> names = {"", "rows", "tokens", "min"};
  for (const int percent : telemetry::kPercentiles) names.push_back(telemetry::percentile_name(percent));
  names.insert(names.end(), {"max", "mean"});
  std::string rows = row("", "th", names);
  for (const telemetry::LengthDistribution& of : profile.lengths) {
    std::vector<std::string> cells = {of.name, grouped(of.rows), grouped(of.tokens), grouped(of.min)};
    for (const double value : of.percentiles) cells.push_back(short_length(value, kThinSpace));
    cells.insert(cells.end(), {grouped(of.max), short_length(of.mean, kThinSpace)});
    rows += row("", "td", cells);
  }
  return card("Tokens per row", "wide", rows);
}

std::string cuts_table(const telemetry::LengthProfile& profile) {
  const bool peaks = std::ranges::any_of(
      profile.limits, [](const telemetry::LengthLimit& limit) { return limit.peak_bytes > 0; });
  std::vector<std::string> names = {
      "max_length", "rows cut", "", "tokens cut off", "", "rows without a trained token", ""};
  if (peaks) names.push_back("predicted peak");
  std::string rows = row("", "th", names);
  for (const telemetry::LengthLimit& limit : profile.limits) {
    std::vector<std::string> cells = {grouped(limit.max_length),
                                      grouped(limit.rows_cut),
                                      percent(limit.rows_cut, profile.rows),
                                      grouped(limit.tokens_cut),
                                      percent(limit.tokens_cut, profile.tokens),
                                      grouped(limit.rows_dropped),
                                      percent(limit.rows_dropped, profile.rows)};
    if (peaks) cells.push_back(base::bytes_text(limit.peak_bytes));
    rows += row("", "td", cells);
  }
  return card("Rows longer than max_length", "wide", rows, why_peaks_fall(profile));
}

std::string layouts_table(const telemetry::LengthProfile& profile) {
  std::string rows = row(
      "", "th", {"max_length", "strategy", "rows", "batches", "steps", "tokens", "padding", "", "lost", ""});
  for (const telemetry::LengthLimit& limit : profile.limits) {
    for (const telemetry::LayoutCost& cost : limit.layouts) {
      const bool first = &cost == &limit.layouts.front();
      rows += row(first ? "first" : "", "td",
                  {first ? grouped(limit.max_length) : "", std::string(layout_name(cost.layout)),
                   grouped(cost.rows), grouped(cost.batches), grouped(cost.steps), grouped(cost.tokens),
                   grouped(cost.padding), percent(cost.padding, cost.tokens + cost.padding),
                   grouped(cost.lost), percent(cost.lost, profile.tokens)});
    }
  }
  return card(fmt::format("An epoch in batches of {}{}", profile.batch_size,
                          profile.accumulation == 1
                              ? ""
                              : fmt::format(", {} batches to an optimizer step", profile.accumulation)),
              "wide named", rows);
}

}  // namespace

std::string to_html(const telemetry::LengthProfile& profile) {
  const telemetry::LengthDistribution& of = profile.lengths.front();
  std::string body = html_numbers({{"rows", grouped(profile.rows)},
                                   {"tokens", grouped(profile.tokens)},
                                   {of.name + ": median", short_length(of.percentile(50), kThinSpace)},
                                   {of.name + ": p95", short_length(of.percentile(95), kThinSpace)},
                                   {of.name + ": longest", grouped(of.max)}});
  body += fmt::format("<section class=\"figure\">{}</section>\n", length_figure(profile));
  body += lengths_table(profile) + cuts_table(profile);
  if (!profile.limits.empty() && !profile.limits.front().layouts.empty()) {
    body += layouts_table(profile) +
            "<footer>The batches are those of a run's first epoch with the same options and seeds. padded "
            "and group_by_length: rows padded to the longest of their batch. padding_free: rows one after "
            "the other. bfd, bfd_split, wrapped: packed; rows are packed rows. lost: tokens in no batch, "
            "because they were cut off, their row has nothing left to train on, or the last batch is left "
            "out (dataloader_drop_last).</footer>\n";
  }
  if (!profile.no_peaks.empty())
    body += fmt::format("<footer>No peak is predicted: {}</footer>\n", html_text(profile.no_peaks));
  return html_page("Token lengths of " + base::file_name(profile.name),
                   html_text(fmt::format("{}: {}", profile.name, profile.format)), body, kLengthsStyle);
}

}  // namespace trl::report
