// Converts rows of other formats: instruction, input and output, like Alpaca's, and messages of from and
// value, as in ShareGPT's rows.
#pragma once
#include <string>
#include <string_view>

#include "data/source/row.h"
#include "text/tokenizer/tokenizer.h"

namespace trl::data {

// Says whether a row is of this kind: it has an instruction and an output, and no other trained column.
bool is_alpaca(const Row& row, const std::string& text_field);
// Converts such a row to prompt (the instruction, then a line end and the input unless it is empty) and
// completion: messages if the tokenizer has a chat template, else text. Leaves other rows as they are. Throws
// Error(format): a column that is not text.
void convert_alpaca(Row& row, const std::string& text_field, const text::Tokenizer& tokenizer);

// Turns from/value in the messages of this column into role/content: human is the user, gpt the assistant,
// observation a tool, and a function_call the tool calls of an assistant. Leaves other columns as they are.
// Throws Error(format) naming row, column and message: a function_call that is not JSON of calls.
void convert_from_value(Row& row, std::string_view column);
// Does the same for `conversations`, and renames it to `messages`.
void convert_conversations(Row& row);

}  // namespace trl::data
