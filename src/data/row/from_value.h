// Messages of from and value, as in ShareGPT's rows.
#pragma once
#include <string_view>

#include "data/source/row.h"

namespace trl::data {

// Turns from/value in the messages of this column into role/content: human is the user, gpt the assistant,
// observation a tool, and a function_call the tool calls of an assistant. Leaves other columns as they are.
// Throws Error(format) naming row, column and message: a function_call that is not JSON of calls.
void convert_from_value(Row& row, std::string_view column);
// Does the same for `conversations`, and renames it to `messages`.
void convert_conversations(Row& row);

}  // namespace trl::data
