#include "report/samples_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "report/chart.h"

namespace trl::report {

namespace {

constexpr size_t kShown = 200;

// Replaces control characters other than line ends and tabs, which HTML does not allow.
std::string shown_html(std::string text) {
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') c = ' ';
  }
  return html_text(text);
}

}  // namespace

std::string samples_section(const std::vector<telemetry::Sample>& samples) {
  if (samples.empty()) return {};
  std::vector<telemetry::Sample> shown(
      samples.end() - static_cast<std::ptrdiff_t>(std::min(kShown, samples.size())), samples.end());
  std::stable_sort(shown.begin(), shown.end(),
                   [](const telemetry::Sample& a, const telemetry::Sample& b) { return a.step > b.step; });
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

}  // namespace trl::report
