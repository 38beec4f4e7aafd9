#include "report/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/text/number.h"
#include "report/chart.h"

namespace trl::report {

namespace {

constexpr size_t kShown = 200;
constexpr size_t kBest = 3, kWorst = 3;  // completions

// Replaces control characters other than line ends and tabs, which HTML does not allow.
std::string shown_html(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') c = ' ';
  return html_text(text);
}

constexpr std::string_view kPageStyle = R"css(
:root { color-scheme: light dark; --page: #f6f7f9; --card: #fff; --text: #1c2330; --faint: #667085;
  --rule: #e4e7ec; --first: #2f6fed; --second: #d9622b; --third: #1a9c6b; --lost: #d92d20; }
@media (prefers-color-scheme: dark) { :root { --page: #12151b; --card: #1b2028; --text: #e6e9ef; --faint: #98a2b3;
  --rule: #2e3541; --first: #7aa7ff; --second: #f5a26b; --third: #5ccfa0; --lost: #ff7a70; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1360px; padding: 28px 24px 48px; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 24px; margin: 0; overflow-wrap: anywhere; }
h2 { font-size: 15px; font-weight: 600; margin: 0 0 6px; }
.outcome { color: var(--faint); margin: 2px 0 20px; }
.numbers, .charts, .tables { display: grid; gap: 14px; margin-bottom: 14px; }
.numbers { grid-template-columns: repeat(auto-fit, minmax(140px, 1fr)); }
.charts, .tables { grid-template-columns: repeat(auto-fit, minmax(min(440px, 100%), 1fr)); }
.card { background: var(--card); border: 1px solid var(--rule); border-radius: 10px; padding: 14px 16px; min-width: 0; }
.numbers b { display: block; font-size: 22px; font-weight: 600; font-variant-numeric: tabular-nums; }
.numbers span, .legend { color: var(--faint); font-size: 13px; }
svg { display: block; width: 100%; height: auto; overflow: visible; }
svg text { fill: var(--faint); font-size: 12px; font-variant-numeric: tabular-nums; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
td, th { text-align: left; font-weight: 400; padding: 4px 12px 4px 0; border-top: 1px solid var(--rule);
  vertical-align: top; overflow-wrap: anywhere; }
tr:first-child > * { border-top: 0; }
th { color: var(--faint); white-space: nowrap; }
footer { color: var(--faint); font-size: 13px; }
)css";

}  // namespace

std::string html_page(std::string_view title, std::string_view below_title, std::string_view body,
                      std::string_view style, int reload_seconds) {
  const std::string reload =
      reload_seconds > 0 ? fmt::format("<meta http-equiv=\"refresh\" content=\"{}\">\n", reload_seconds) : "";
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width, "
      "initial-scale=1\">\n{}<title>{}</title>\n<style>{}{}</style></head><body>\n"
      "<h1>{}</h1>\n<p class=\"outcome\">{}</p>\n{}</body></html>\n",
      reload, html_text(title), kPageStyle, style, html_text(title), below_title, body);
}

std::string html_numbers(const telemetry::Facts& numbers) {
  std::string out = "<div class=\"numbers\">\n";
  for (const auto& [name, value] : numbers)
    out += fmt::format("<div class=\"card\"><b>{}</b><span>{}</span></div>\n", value, name);
  return out + "</div>\n";
}

std::string samples_section(const std::vector<telemetry::Sample>& samples) {
  if (samples.empty()) return {};
  std::vector<telemetry::Sample> shown(
      samples.end() - static_cast<std::ptrdiff_t>(std::min(kShown, samples.size())), samples.end());
  std::ranges::stable_sort(
      shown, [](const telemetry::Sample& a, const telemetry::Sample& b) { return a.step > b.step; });
  std::string out =
      "<section class=\"card samples\"><h2>Samples</h2><table>\n"
      "<tr><th>step</th><th>prompt</th><th>completion</th></tr>\n";
  for (const telemetry::Sample& sample : shown) {
    out += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td></tr>\n", sample.step,
                       shown_html(telemetry::prompt_text(sample.prompt)), shown_html(sample.completion));
  }
  out += "</table>";
  if (shown.size() < samples.size())
    out += fmt::format("<p>The newest {} of {}; samples.jsonl has all.</p>", shown.size(), samples.size());
  return out + "</section>\n";
}

std::string scored_section(std::vector<telemetry::ScoredCompletion> completions) {
  using telemetry::ScoredCompletion;
  std::erase_if(completions, [](const ScoredCompletion& one) { return std::isnan(one.reward); });
  if (completions.empty()) return {};
  std::ranges::stable_sort(completions, std::greater(), &ScoredCompletion::reward);
  std::string out = fmt::format(
      "<section class=\"card samples\"><h2>Best and worst completions of step {}</h2><table>\n"
      "<tr><th>reward</th><th>prompt</th><th>completion</th></tr>\n",
      completions.front().step);
  for (size_t i = 0; i < completions.size(); ++i) {
    if (i >= kBest && i + kWorst < completions.size()) continue;
    const ScoredCompletion& one = completions[i];
    out += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td></tr>\n", base::short_number(one.reward),
                       shown_html(telemetry::prompt_text(one.prompt)),
                       shown_html(telemetry::prompt_text(one.completion)));
  }
  return out + "</table></section>\n";
}

}  // namespace trl::report
