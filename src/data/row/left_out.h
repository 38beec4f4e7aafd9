// Messages that a chat template leaves out of what it renders.
#pragma once
#include <functional>
#include <string>

#include "base/json/json.h"

namespace trl::data {

// The number, from 1, of the first message of whose content and tool calls nothing is in the text that was
// rendered of them; 0: there is none, or the template does not tell. render: renders other messages of the
// same row.
size_t first_left_out(const base::Json& messages, const std::string& rendered,
                      const std::function<std::string(const base::Json&)>& render);

}  // namespace trl::data
