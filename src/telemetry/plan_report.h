// What a run will take, as text and as a page. plan: the object that trl_trainer_plan gives
// (include/trl/trl.h).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/json.h"

namespace trl::telemetry {

std::string plan_text(const base::Json& plan);  // lines for a terminal
std::string plan_page(const base::Json& plan);  // HTML that needs no other file

// Words in lines of at most this many bytes after an indent; a longer word has a line of its own.
std::string wrapped(const std::string& text, int64_t columns, const std::string& indent = {});
std::string bytes_text(double bytes);                          // "1.83 GB", powers of 1000
std::string count_text(int64_t count, std::string_view what);  // "1 row", "2 rows"
std::string rate_text(double rate);                            // "1320", "3.14"
std::string duration_text(double seconds);                     // "2 h 05 min", "14 min 20 s", "41 s"

}  // namespace trl::telemetry
