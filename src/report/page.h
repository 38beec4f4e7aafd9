// The frame of an HTML report: one file that needs no other, light or dark as the reader prefers.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "telemetry/recorder.h"
#include "telemetry/scored.h"

namespace trl::report {

// body is HTML; style is added to the common style of reports (cards, numbers, tables, charts).
// reload_seconds: the time after which a browser reloads the page; 0: never.
std::string html_page(std::string_view title, std::string_view below_title, std::string_view body,
                      std::string_view style, int reload_seconds = 0);
std::string html_numbers(const telemetry::Facts& numbers);  // {label, number}: a row of cards

// Returns a table of the samples of a run, the newest step first; empty if there are no samples.
std::string samples_section(const std::vector<telemetry::Sample>& samples);

// Returns a table of the completions with the highest and with the lowest rewards; empty if none has a
// reward.
std::string scored_section(std::vector<telemetry::ScoredCompletion> completions);

// Makes the recorder of report_to html: report.html in output_dir.
std::unique_ptr<telemetry::Recorder> make_html(const telemetry::RecordTo& to);

}  // namespace trl::report
