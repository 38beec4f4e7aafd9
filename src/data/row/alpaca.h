// Rows of instruction, input and output, like Alpaca's.
#pragma once
#include <string>

#include "data/source/row.h"
#include "text/tokenizer/tokenizer.h"

namespace trl::data {

// Says whether a row is of this kind: it has an instruction and an output, and no other trained column.
bool is_alpaca(const Row& row, const std::string& text_field);
// Converts such a row to prompt (the instruction, then a line end and the input unless it is empty) and
// completion: messages if the tokenizer has a chat template, else text. Leaves other rows as they are. Throws
// Error(format): a column that is not text.
void convert_alpaca(Row& row, const std::string& text_field, const text::Tokenizer& tokenizer);

}  // namespace trl::data
