// Finds messages that a chat template leaves out of its text.
#pragma once
#include <functional>
#include <string>

#include "base/json/json.h"

namespace trl::data {

// Returns the number, from 1, of the first message whose content and tool calls do not appear in the rendered
// text at all; 0: no message, or the template does not tell. render: renders other messages of the same row.
size_t first_left_out(const base::Json& messages, const std::string& rendered,
                      const std::function<std::string(const base::Json&)>& render);

}  // namespace trl::data
