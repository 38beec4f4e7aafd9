// Shows a predicted run as text and as a page. plan: the object that trl_trainer_plan gives
// (include/trl/trl.h).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "base/json/json.h"

namespace trl::report {

std::string plan_text(const base::Json& plan);  // lines for a terminal
std::string plan_page(const base::Json& plan);  // HTML that needs no other file

// Wraps words into lines of at most this many bytes after an indent; a longer word gets its own line.
std::string wrapped(const std::string& text, int64_t columns, const std::string& indent = {});

}  // namespace trl::report
