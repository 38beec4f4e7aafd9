// The frame of an HTML report: one file that needs no other, light or dark as the reader prefers.
#pragma once
#include <string>
#include <string_view>

#include "telemetry/recorder.h"

namespace trl::report {

// body is HTML; style is added to the common style of reports (cards, numbers, tables, charts).
// reload_seconds: the time after which a browser reloads the page; 0: never.
std::string html_page(std::string_view title, std::string_view below_title, std::string_view body,
                      std::string_view style, int reload_seconds = 0);
std::string html_numbers(const telemetry::Facts& numbers);  // {label, number}: a row of cards

}  // namespace trl::report
